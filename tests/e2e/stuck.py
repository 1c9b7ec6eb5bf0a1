"""A folder in which nothing ends: whoever looks something up there waits, and no signal ends that, until release()."""
import ctypes
import os
import struct
import threading

LIBC = ctypes.CDLL(None, use_errno=True)


class StuckFolder:
    """A file system in user space that reads what it is asked and never answers."""

    def __init__(self, path):
        self.path = path
        os.mkdir(path)
        self.device = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={self.device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
        if LIBC.mount(b"stuck", path.encode(), b"fuse", 0, options) != 0:
            raise OSError(ctypes.get_errno(), "cannot mount a file system of its own")
        self.asked = threading.Event()
        self.wakes, self.wake = os.pipe()
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        request = os.read(self.device, 1 << 17)  # the first is the kernel's greeting
        unique = struct.unpack_from("<Q", request, 8)[0]
        greeting = struct.pack("<IIIIHHII", 7, 31, 0, 0, 16, 12, 4096, 1).ljust(64, b"\0")
        os.write(self.device, struct.pack("<IiQ", 16 + len(greeting), 0, unique) + greeting)
        os.read(self.device, 1 << 17)
        self.asked.set()

    def release(self):
        """Who waits there hears that nobody is left to answer."""
        if self.device is None:
            return
        LIBC.umount2(self.path.encode(), 1 | 2)  # by force, and at once
        os.close(self.device)
        self.device = None
