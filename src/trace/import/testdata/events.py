# The peer of tensorboard_peer_test: `check`, `read FILE` (what TensorBoard reads, as JSON), `write
# DIR` (what its writers write, four ways; the values as JSON). Exit 77 without TensorBoard.
import json
import os
import sys

try:
    import numpy
    from tensorboard.backend.event_processing import event_accumulator, event_file_loader
    from tensorboard.compat.proto import event_pb2, summary_pb2
    from tensorboard.plugins.scalar import summary_v2
    from tensorboard.util import tensor_util
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
except ImportError as missing:
    print(missing)
    sys.exit(77)


def read(path):
    # Every record through TensorBoard's own loader, and the scalars as its backend keeps them.
    count = sum(1 for _ in event_file_loader.LegacyEventFileLoader(path).Load())
    accumulator = event_accumulator.EventAccumulator(path, size_guidance={"scalars": 0})
    accumulator.Reload()
    scalars = {
        tag: [[each.step, float(each.value).hex()] for each in accumulator.Scalars(tag)]
        for tag in accumulator.Tags()["scalars"]
    }
    print(json.dumps({"records": count, "scalars": scalars}))


def losses(steps):
    return [1.0 / (3 + step) for step in range(steps)]


def write_simple(folder, values):
    writer = EventFileWriter(folder)
    for step, value in enumerate(values):
        entry = summary_pb2.Summary.Value(tag="train/loss", simple_value=value)
        summary = summary_pb2.Summary(value=[entry])
        writer.add_event(event_pb2.Event(wall_time=step, step=step, summary=summary))
    writer.close()


def write_tensors(folder, values):
    writer = EventFileWriter(folder)
    for step, value in enumerate(values):
        summary = summary_v2.scalar_pb("loss", value)
        writer.add_event(event_pb2.Event(wall_time=step, step=step, summary=summary))
    writer.close()


def write_doubles(folder, values):
    writer = EventFileWriter(folder)
    for step, value in enumerate(values):
        tensor = tensor_util.make_tensor_proto(numpy.float64(value))
        entry = summary_pb2.Summary.Value(tag="lm loss", tensor=tensor)
        summary = summary_pb2.Summary(value=[entry])
        writer.add_event(event_pb2.Event(wall_time=step, step=step, summary=summary))
    writer.close()


def write_torch(folder, values):
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(folder) as writer:
        for step, value in enumerate(values):
            writer.add_scalar("loss_metrics/global_avg_loss", value, step)
            writer.add_scalar("grad_norm", 2 * value, step)
            writer.add_histogram("weights", numpy.array([value, 2 * value]), step)


def write(root):
    values = losses(5)
    writers = {
        "simple": write_simple,
        "tensors": write_tensors,
        "doubles": write_doubles,
        "torch": write_torch,
    }
    for name, how in writers.items():
        os.mkdir(os.path.join(root, name))
        how(os.path.join(root, name), values)
    single = [float(numpy.float32(value)).hex() for value in values]
    print(json.dumps({"float32": single, "float64": [value.hex() for value in values]}))


if __name__ == "__main__":
    if sys.argv[1] == "read":
        read(sys.argv[2])
    elif sys.argv[1] == "write":
        write(sys.argv[2])
