"""What happens to files: each does one damage to the file at a path."""
import os


def empty(path):
    open(path, "wb").close()


def truncated(path):
    os.truncate(path, max(1, os.path.getsize(path) * 2 // 3))


def flipped(path):
    with open(path, "r+b") as f:
        f.seek(min(70, os.path.getsize(path) - 2))
        byte = f.read(1)[0]
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte ^ 4]))


def garbage(path):
    with open(path, "wb") as f:
        f.write(bytes(range(7, 250)) * 40)


def directory(path):
    os.unlink(path)
    os.mkdir(path)


def missing(path):
    os.unlink(path)


DAMAGES = (empty, truncated, flipped, garbage, directory, missing)
