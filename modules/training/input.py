"""The input pipeline: the same global batches however many workers read them.

Sharding by data: every worker reads all files, groups the records into *global* batches and parses only its slice of
each. So the sequence of global batches depends on the seed alone, not on the number of workers; all workers see the
same number of batches, so an uneven tail cannot hang anybody; and a checkpoint's step number is the data position.

A slice is `ceil(n / replicas)` long on every replica; where the tail has no record for a place, a real record is
repeated there with mask 0, so shapes agree everywhere and the step ignores it.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from modules.training.config import TrainingConfig
from modules.training.errors import TrainingConfigError, TrainingDataError
from modules.training.graph_code import as_it_is, rewritten
from modules.training.records import RecordFiles, count_records

ParseFn = Callable[[tf.Tensor], tuple]
"""Serialized tf.Examples, a string tensor [n], to (features, labels) or (features, labels, weights [n])."""

FeaturesFn = Callable[[dict, tf.Tensor | None], dict]
"""From the features as they are stored to those that the model takes, in tf.data and inside the served graph.

Called with the dict of a batch's features and int64 [n, 2] seeds, one per example, the same in any number of workers
and new in every epoch: what augmentation draws from. The seeds are None where nothing may be random: in evaluation and
serving.
"""

LABEL = "label"
"""The key of the label itself where labels are a dict (distillation adds the teacher's answers)."""

_FOREVER = 2**62


@dataclasses.dataclass(frozen=True)
class ReplicaPlacement:
    """Which replicas this process feeds, out of how many."""

    num_replicas: int = 1
    first: int = 0
    local: int = 1

    @property
    def num_workers(self) -> int:
        return self.num_replicas // self.local


def placement(strategy: tf.distribute.Strategy, worker_rank: int) -> ReplicaPlacement:
    """The placement of this process under `strategy`; every worker has as many replicas as this one."""
    workers = getattr(strategy.extended, "_num_workers", 1)
    local = strategy.num_replicas_in_sync // workers
    return ReplicaPlacement(strategy.num_replicas_in_sync, worker_rank * local, local)


def choose_sharding(config: TrainingConfig, num_files: int, num_workers: int) -> str:
    """Returns "data" or "file".

    Raises:
      TrainingConfigError: sharding by file is configured and there are fewer files than workers.
    """
    if config.sharding == "file" and num_files < num_workers:
        raise TrainingConfigError(
            f"sharding is 'file' but there are {num_files} training files for {num_workers} workers; "
            f"write at least {num_workers} shards or set sharding to 'data'"
        )
    if config.sharding == "auto":
        even_enough = num_files % num_workers == 0 or num_files >= 8 * num_workers
        return "file" if num_workers > 1 and num_files >= num_workers and even_enough else "data"
    return config.sharding


class RecordInput:
    """Batches of one split for this process's replicas.

    Each element is (features, labels, weights, mask) for one replica: what `parse` returns plus float32 vectors [n].
    `mask` is 0 where a record is only there to fill the shape; `weights` is the mask times sample and class weight.
    """

    def __init__(
        self,
        files: RecordFiles,
        parse: ParseFn,
        config: TrainingConfig,
        replicas: ReplicaPlacement,
        *,
        training: bool,
        largest: Callable[[int], int] = lambda number: number,
        features_fn: FeaturesFn | None = None,
    ):
        """`largest` returns the largest of all workers' numbers; only sharding by file asks."""
        self._config, self._replicas, self._training = config, replicas, training
        self._parse, self._largest = rewritten(parse), largest
        self._features_fn = features_fn and rewritten(features_fn)
        self._all_files = files
        self.sharding = choose_sharding(config, len(files.paths), replicas.num_workers) if training else "data"
        if self.sharding == "file":
            worker = replicas.first // replicas.local
            files = RecordFiles(files.paths[worker :: replicas.num_workers], files.compression)
        self._files = files
        per_replica = config.batch_size if training else config.eval_batch_size or config.batch_size
        self.global_batch = per_replica * replicas.num_replicas
        # What one pass over self._files is cut into: global batches, or this worker's share of them.
        self._slices = replicas.local if self.sharding == "file" else replicas.num_replicas
        self._first_slice = 0 if self.sharding == "file" else replicas.first
        self._read_batch = per_replica * self._slices
        self._count: int | None = None
        self._num_batches: int | None = None
        self._cached: Any = None

    def identity(self) -> list:
        """Names and sizes of all files, for a checkpoint."""
        return self._all_files.identity()

    def count(self) -> int:
        """Records in the files that this process reads; the first call reads them once.

        Raises:
          TrainingDataError: a file is corrupt or there are no records at all.
        """
        if self._count is None:
            self._count = count_records(self._files)
            if not self._count:
                raise TrainingDataError(f"the files hold no examples: {', '.join(self._files.paths)}")
        return self._count

    def num_batches(self) -> int:
        """Global batches in one epoch; with sharding by file, all workers must make the first call together."""
        if self._num_batches is None:
            count = self.count()
            whole, rest = divmod(count, self._read_batch)
            batches = whole + (1 if rest and not (self._config.drop_remainder and self._training) else 0)
            if self.sharding == "file":
                batches = self._largest(batches)
            if not batches:
                raise TrainingDataError(
                    f"{count} examples are less than one global batch of {self.global_batch}, and drop_remainder is "
                    "set; make batch_size smaller or leave drop_remainder out"
                )
            self._num_batches = batches
        return self._num_batches

    @as_it_is
    def training_batches(self, start: int = 0) -> tf.data.Dataset:
        """Endless replica batches, beginning at global batch number `start` of the whole training."""
        # Whatever the traced functions below need to know is found out before, eagerly; with drop_remainder also that
        # an epoch has a batch at all, for an endless row of empty epochs would hang.
        is_counted = bool(start) or self.sharding == "file" or self._config.drop_remainder
        epoch, skip = divmod(start, self.num_batches()) if is_counted else (0, 0)
        if self._config.cache:
            self._load()
        epochs = tf.data.Dataset.range(epoch, _FOREVER)
        first = tf.constant(epoch, tf.int64)

        def one_epoch(number: tf.Tensor) -> tf.data.Dataset:
            tf.random.set_seed(1)  # of this traced function only: the order must not follow the program's global seed
            batches = self._epoch(number)
            return batches.skip(tf.where(number == first, tf.constant(skip, tf.int64), tf.zeros([], tf.int64)))

        return self._finish(epochs.flat_map(one_epoch))

    @as_it_is
    def evaluation_batches(self) -> tf.data.Dataset:
        """Replica batches of one pass in file order, then again from the start; `num_batches` make one pass.

        Endless, because TensorFlow asks all workers about the end of a finite dataset before every batch.
        """
        return self._finish(self._epoch(tf.zeros([], tf.int64)).repeat())

    def _epoch(self, number: tf.Tensor) -> tf.data.Dataset:
        """(records or numbers of cached ones, how many of them count, [epoch, batch]), before slicing.

        A group holds up to `_read_batch` records.
        """
        config = self._config
        shuffle = self._training and config.shuffle_buffer > 0
        drop = self._training and config.drop_remainder
        seed = tf.stack([tf.constant(config.seed, tf.int64), number])
        if self._training and config.cache:
            order = tf.range(self.count(), dtype=tf.int64)
            if shuffle:
                order = tf.random.experimental.stateless_shuffle(order, seed=seed)
            records = tf.data.Dataset.from_tensor_slices(order)
        else:
            paths = tf.constant(self._files.paths)
            if shuffle:
                paths = tf.random.experimental.stateless_shuffle(paths, seed=seed)
            records = tf.data.Dataset.from_tensor_slices(paths).interleave(
                lambda path: tf.data.TFRecordDataset(path, self._files.compression, buffer_size=1 << 20),
                cycle_length=min(config.parallel_files, len(self._files.paths)),
                block_length=16,
                num_parallel_calls=tf.data.AUTOTUNE,
                deterministic=config.deterministic,
            )
            if shuffle:
                records = records.shuffle(
                    config.shuffle_buffer, seed=seed[0] * 1_000_003 + number + 1, reshuffle_each_iteration=False
                )
        batches = records.batch(self._read_batch, drop_remainder=drop).map(lambda r: (r, tf.size(r, tf.int64)))
        if self.sharding == "file":
            # A worker whose files hold less keeps the others company with records that count nothing.
            filler = records.take(1).batch(1).map(lambda r: (r, tf.zeros([], tf.int64))).repeat()
            batches = batches.concatenate(filler).take(self.num_batches())
        return batches.enumerate().map(lambda index, batch: (*batch, tf.stack([number, index])))

    def _finish(self, batches: tf.data.Dataset) -> tf.data.Dataset:
        """Slices, parses and prefetches."""
        config = self._config
        if self._replicas.local > 1:
            places = tf.range(self._first_slice, self._first_slice + self._replicas.local, dtype=tf.int64)
            batches = batches.flat_map(
                lambda records, total, at: tf.data.Dataset.from_tensor_slices(places).map(
                    lambda place: self._slice(records, total, at, place)
                )
            )
        else:
            place = tf.constant(self._first_slice, tf.int64)
            batches = batches.map(lambda records, total, at: self._slice(records, total, at, place))
        batches = batches.map(
            self._to_example_batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=config.deterministic
        )
        batches = batches.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        options.deterministic = config.deterministic
        return batches.with_options(options).prefetch(config.prefetch or tf.data.AUTOTUNE)

    def _slice(self, records: tf.Tensor, total: tf.Tensor, at: tf.Tensor, place: tf.Tensor) -> tuple:
        """(records, mask, seeds) of the replica at `place`, all of the same length on every replica."""
        if self._slices == 1 and self.sharding == "data":
            # All of it: no need to copy.
            return records, tf.ones([total]), self._seeds(at, tf.range(total))
        if self.sharding == "file" or (self._training and self._config.drop_remainder):
            length = tf.constant(self._read_batch // self._slices, tf.int64)
        else:
            length = (total + self._slices - 1) // self._slices
        index = place + self._slices * tf.range(length)
        last = tf.size(records, tf.int64) - 1
        mask = tf.cast(index < total, tf.float32)
        return tf.gather(records, tf.minimum(index, last)), mask, self._seeds(at, index)

    def _seeds(self, at: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
        """A seed per example, int64 [n, 2], from its epoch and batch and its place in the global batch."""
        if self.sharding == "file":
            index += self._replicas.first * self._read_batch
        batch = at[0] * (1 << 32) + at[1]
        example = self._config.seed * (1 << 32) + index
        return tf.stack([tf.fill(tf.shape(example), batch), example], axis=1)

    def _to_example_batch(self, records: tf.Tensor, mask: tf.Tensor, seeds: tf.Tensor) -> tuple:
        if records.dtype == tf.string:
            parsed = self._parse(records)
        else:
            parsed = tf.nest.map_structure(lambda column: tf.gather(column, records), self._load())
        features, labels, *rest = parsed
        if self._features_fn is not None:
            features = self._features_fn(features, seeds if self._training else None)
        weights = mask * tf.reshape(tf.cast(rest[0], tf.float32), [-1]) if rest else mask
        if self._training and self._config.class_weights:
            target = labels[LABEL] if isinstance(labels, Mapping) else labels
            weights *= class_weight(target, dict(self._config.class_weights))
        return features, labels, weights, mask

    @as_it_is
    def _load(self) -> Any:
        """All parsed examples of this process as dense tensors."""
        if self._cached is None:
            records = tf.data.TFRecordDataset(list(self._files.paths), self._files.compression)
            parsed = records.batch(4096).map(self._parse, num_parallel_calls=tf.data.AUTOTUNE)
            self._cached = _concatenate(list(parsed), self.count())
        return self._cached


def _concatenate(parts: list, count: int) -> Any:
    if any(not isinstance(leaf, tf.Tensor) for leaf in tf.nest.flatten(parts[0], expand_composites=False)):
        raise TrainingConfigError("cache keeps dense features only; set cache to false for sparse or ragged features")
    columns = tf.nest.map_structure(lambda *tensors: tf.concat(tensors, axis=0), *parts)
    assert int(tf.shape(tf.nest.flatten(columns)[0])[0]) == count
    return columns


def class_weight(labels: tf.Tensor, weights: Mapping[int, float]) -> tf.Tensor:
    """The weight of each label, float32 [n]; labels are class numbers [n] or [n, 1], or one-hot [n, classes]."""
    if labels.shape.rank is not None and labels.shape.rank > 1 and labels.shape[-1] != 1:
        classes = tf.argmax(labels, axis=-1)
    else:
        classes = tf.reshape(labels, [-1])
    classes = tf.cast(classes, tf.int64)
    table = tf.ones_like(classes, tf.float32)
    for number, weight in weights.items():
        table = tf.where(classes == number, tf.constant(weight, tf.float32), table)
    return table


def example_parser(feature_spec: Mapping[str, Any], label_key: str, weight_key: str | None = None) -> ParseFn:
    """Parses serialized tf.Examples with `feature_spec`, taking the label (and the weight) out of the features.

    Raises:
      TrainingConfigError: label_key or weight_key is not in the feature spec; names what is.
    """
    for role, key in (("label", label_key), ("weight", weight_key)):
        if key is not None and key not in feature_spec:
            raise TrainingConfigError(
                f"the {role} {key!r} is not among the features: {', '.join(sorted(feature_spec))}"
            )
    spec = dict(feature_spec)

    @as_it_is
    def parse(serialized: tf.Tensor) -> tuple:
        features = tf.io.parse_example(serialized, spec)
        labels = features.pop(label_key)
        if weight_key is None:
            return features, labels
        return features, labels, features.pop(weight_key)

    return parse
