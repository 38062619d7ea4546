from .arrays import Dataset, Pack, Samples
from .loader import Batch, BatchGone, Block, FeedError, Loader
from .run import Run

__all__ = ["Batch", "BatchGone", "Block", "Dataset", "FeedError", "Loader", "Pack", "Run", "Samples"]
