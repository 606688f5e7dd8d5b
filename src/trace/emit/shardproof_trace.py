"""The Shardproof trace of a PyTorch run: copy this file beside your script. It needs torch alone;
where SHARDPROOF_TRACE is not set it does nothing. At most six lines go into a script:

    import shardproof_trace
    trace = shardproof_trace.Trace(model, optimizer, data={"size": 1000})  # behind wrapping
    trace.reduced()                     # behind backward, before clipping; none: leave it out
    trace.step(step, loss, norm, tokens, samples)                # behind optimizer.step()
    with trace.checkpoint(path): torch.save(state, path)         # behind trace.step()
    trace.end()

`loss` and `norm` are the whole batch's on every rank (trace.mean(loss): of all ranks; no norm: that
of the gradients), `tokens` and `samples` are the rank's own. first=8: the step that a resumed run
begins with. Other arguments of Trace are facts of its run: data={"size": samples of an epoch},
coords={"dp": 0, "tp": 1} where ranks see the same samples. The phases forward, backward, clipped
and optimizer come from hooks; where the model is not called, trace.at("forward"). Cut by hand, not
a DTensor: place=f(name, tensor) -> (offsets, global shape); other names: name=f(name) -> name.
"""
import contextlib, ctypes, hashlib, json, math, os, re, signal, struct, sys, time
import torch, torch.distributed as dist

WRAPPERS = r"(^|(?<=\.))(module|_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\."
DTYPES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
SEATS = (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
         ("PMI_RANK", "PMI_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"))


def seat():  # rank and world
    if dist.is_available() and dist.is_initialized(): return dist.get_rank(), dist.get_world_size()
    known = [pair for pair in SEATS if all(each in os.environ for each in pair)]
    return tuple(int(os.environ[each]) for each in known[0]) if known else (0, 1)


def place_of(name, tensor):  # offsets of this rank's part, and the global shape
    if not hasattr(tensor, "placements"): return [0] * tensor.dim(), list(tensor.shape)
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset as part
    return list(part(tensor.shape, tensor.device_mesh, tensor.placements)[1]), list(tensor.shape)


def local_of(tensor):
    if not hasattr(tensor, "placements"): return tensor.detach()
    from torch.distributed.tensor import Replicate
    whole = [Replicate() if each.is_partial() else each for each in tensor.placements]
    return tensor.detach().redistribute(placements=whole).to_local()


class Off:
    def __getattr__(self, name): return lambda *args, **named: contextlib.nullcontext()


def Trace(*args, **named):
    return On(*args, **named) if os.environ.get("SHARDPROOF_TRACE") else Off()


class On:
    def __init__(self, model, optimizer, first=0, name=str, place=place_of, **facts):
        listed = lambda value: value if isinstance(value, (list, tuple)) else [value]
        self.now, self.passed, self.place, self.norm = first, set(), place, None
        self.first, self.optimizers, (self.rank, world) = first, listed(optimizer), seat()
        self.folder = os.environ["SHARDPROOF_TRACE"]
        self.match = os.environ.get("SHARDPROOF_MATCH", "")
        self.steps = os.environ.get("SHARDPROOF_TENSORS", "").split(",")
        self.fault = os.environ.get("SHARDPROOF_FAULT", "").split(":")  # rank, step, phase, kind
        self.params = [(name(re.sub(WRAPPERS, "", each)), parameter) for module in listed(model)
                       for each, parameter in module.named_parameters()]
        os.makedirs(self.folder, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self.file = os.open(f"{self.folder}/rank_{self.rank:05d}.jsonl", flags, 0o644)
        said = {"schema": 1, "rank": self.rank, "world": world, "pid": os.getpid()}
        said["versions"] = {"torch": torch.__version__}
        said["frozen"] = [each for each, value in self.params if not value.requires_grad]
        if script := getattr(sys.modules["__main__"], "__file__", None):
            with open(script, "rb") as text:
                said["code"] = hashlib.sha256(text.read()).hexdigest()
        self.line("run", **{**said, **facts})
        for module in listed(model):
            module.register_forward_pre_hook(self.entered, prepend=True)
            module.register_forward_hook(self.left)
        for each in self.optimizers: each.register_step_pre_hook(self.stepping)

    def line(self, kind, **members):
        os.write(self.file, (json.dumps({"kind": kind, **members}) + "\n").encode())

    def at(self, phase, step=None):
        if phase in self.passed: return
        self.passed.add(phase)
        step = self.now if step is None else step
        if phase == "forward" and step == self.first: self.write("param", step - 1, self.params)
        self.line("at", step=step, phase=phase)
        if self.fault[:3] != [str(self.rank), str(step), phase]: return
        if self.fault[3] == "kill": os.kill(os.getpid(), signal.SIGKILL)
        elif self.fault[3] == "stop": signal.raise_signal(signal.SIGSTOP)
        else: time.sleep(float(self.fault[3].removeprefix("delay=")))

    def entered(self, module, args):
        if module.training: self.at("forward")

    def left(self, module, args, output):
        for each in torch.utils._pytree.tree_leaves(output):
            if module.training and isinstance(each, torch.Tensor) and each.requires_grad:
                each.register_hook(lambda gradient: self.at("backward"))

    def gradients(self):
        return [(name, each.grad) for name, each in self.params if each.grad is not None]

    def mean(self, value):  # of one number over all ranks
        total = torch.as_tensor(value).detach().double().cpu().reshape(1).clone()
        if dist.is_available() and dist.is_initialized(): dist.all_reduce(total)
        return total.item() / seat()[1]

    def reduced(self):
        self.at("reduced")
        self.write("grad", self.now, self.gradients())

    def stepping(self, optimizer, args, named):
        if "reduced" not in self.passed:
            self.reduced()
            self.norm = torch.nn.utils.get_total_norm([each for _, each in self.gradients()])
        self.at("clipped")
        self.at("optimizer")
        self.rate = self.optimizers[0].param_groups[0]["lr"]

    def step(self, step, loss, norm=None, tokens=0, samples=(), skipped=False):
        if step != self.now:
            raise ValueError(f"trace.step({step}): expected {self.now} (first=...)")
        if norm is None and self.norm is None:
            raise ValueError("trace.step: no norm; give it where trace.reduced() is called")
        self.write("param", step, self.params)
        self.write("moment", step, [
            (f"{name}/{key}", value) for name, parameter in self.params for each in self.optimizers
            for key, value in each.state.get(parameter, {}).items() if key != "step"
            and isinstance(value, torch.Tensor) and value.shape == parameter.shape])
        floats = {}
        stepped = "optimizer" in self.passed
        rate = self.rate if stepped else self.optimizers[0].param_groups[0]["lr"]
        norm = self.norm if norm is None else norm
        for key, value in ("loss", loss), ("grad_norm", norm), ("lr", rate):
            value = float(value.full_tensor() if hasattr(value, "full_tensor") else value)
            floats[key] = value if math.isfinite(value) else None
            floats[key + "_bits"] = struct.pack(">d", value).hex()
        ids = [int(each) for each in samples]
        self.line("step", step=step, **floats, tokens=int(tokens), samples=ids, skipped=skipped)
        self.now, self.passed = step + 1, set()

    @contextlib.contextmanager
    def checkpoint(self, path):
        self.at("save", self.now - 1)
        self.passed.clear()
        self.line("checkpoint", step=self.now, path=str(path), state="begun")
        yield
        self.line("checkpoint", step=self.now, path=str(path), state="done")

    def end(self):
        self.line("end", step=self.now)

    def write(self, what, step, tensors):
        if str(step) not in self.steps and self.steps != ["all"]: return
        head, places, parts, end = {}, {}, [], 0
        for name, tensor in tensors:
            if not re.search(self.match, name): continue
            part, (offsets, shape) = local_of(tensor), self.place(name, tensor)
            if part.numel() == 0: continue
            begin, end = end, end + part.numel() * part.element_size()
            head[name] = {"dtype": DTYPES[part.dtype], "shape": list(part.shape),
                          "data_offsets": [begin, end]}
            places[name] = {"saved_offsets": offsets, "global_shape": shape}
            parts.append(part)
        head["__metadata__"] = {"DCP_SHARDING_INFO": json.dumps(places)}
        text = json.dumps(head).encode()
        text += b" " * (-len(text) % 8)
        path = f"{self.folder}/step_{step:06d}.{what}.rank_{self.rank:05d}.safetensors"
        with open(path + ".draft", "wb") as out:
            out.write(struct.pack("<Q", len(text)) + text)
            for part in parts:
                part = part.cpu().clone(memory_format=torch.contiguous_format)
                size = part.numel() * part.element_size()
                out.write((ctypes.c_char * size).from_address(part.data_ptr()))
        os.replace(path + ".draft", path)
