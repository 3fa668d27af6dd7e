"""Tables from files (`read`, `write`), synthetic sets (`toys`), public sets (`load_dataset`), and patches of images."""

from latentbits.data import patches, toys
from latentbits.data.bit_packing import write_packed
from latentbits.data.fetch import Dataset, DatasetInfo, datasets, load_dataset
from latentbits.data.read import Table, read
from latentbits.data.write import write

__all__ = [
    "Dataset",
    "DatasetInfo",
    "Table",
    "datasets",
    "load_dataset",
    "patches",
    "read",
    "toys",
    "write",
    "write_packed",
]
