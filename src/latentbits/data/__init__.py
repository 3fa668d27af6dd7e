"""Tables from files (`read`, `write`), synthetic sets (`toys`) and public sets (`load_dataset`)."""

from latentbits.data import toys
from latentbits.data.fetch import Dataset, DatasetInfo, datasets, load_dataset
from latentbits.data.read import Table, read
from latentbits.data.write import write

__all__ = ["Dataset", "DatasetInfo", "Table", "datasets", "load_dataset", "read", "toys", "write"]
