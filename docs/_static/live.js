// The page beside a guide is loaded where there is room for it; else its picture and the guide's links open it.
const frame = document.querySelector(".live iframe");
const fill = () => {
  if (frame.offsetParent && !frame.src) frame.src = frame.dataset.src;
};
fill();
addEventListener("resize", fill);

for (const link of document.querySelectorAll(".live a.look")) {
  link.addEventListener("click", (event) => {
    if (!frame.offsetParent || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    frame.contentWindow.location.replace(link.href); // no step in the history of the guide
  });
}
