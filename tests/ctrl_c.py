"""Ctrl-C at any place where Python looks for signals."""

import dis
import gc
import sys

# CPython looks for signals after these.
INTERRUPTIBLE = {"CALL", "CALL_FUNCTION_EX", "CALL_KW", "RESUME", "JUMP_BACKWARD"}


def interrupt_at(count, call):
    """Call a function, and press Ctrl-C the nth time that Python looks for signals. Returns whether it did."""
    left, before = [count], {}

    def trace(frame, event, _):
        frame.f_trace_opcodes = True
        if event == "opcode":
            last, before[frame] = before.get(frame), frame.f_lasti
            if last is not None and dis.opname[frame.f_code.co_code[last]] in INTERRUPTIBLE:
                left[0] -= 1
                if left[0] == 0:
                    raise KeyboardInterrupt
        return trace

    # A collection calls what other packages have registered for it, and what they raise there is lost.
    gc.disable()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
        gc.enable()
    return left[0] <= 0
