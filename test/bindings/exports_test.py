"""The symbols that libphantora_c.so exports are those of bindings/c/exports.txt, which is what
phantora.h declares: a symbol that goes, or a new one, changes the list."""
import pathlib
import re
import subprocess
import sys

library, root = sys.argv[1], pathlib.Path(sys.argv[2])
listed = (root / "bindings/c/exports.txt").read_text().split()
header = (root / "bindings/c/phantora.h").read_text()
declared = re.findall(r"^PHANTORA_API [^;(]*?(\w+)\(", header, re.MULTILINE)
table = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
exported = [line.split()[2] for line in table.splitlines()]
for what, names in (("phantora.h declares", declared), (f"{library} exports", exported)):
    unlisted, missing = set(names) - set(listed), set(listed) - set(names)
    assert not unlisted and not missing, f"{what} beyond exports.txt {unlisted}, and lacks {missing}"
assert listed == sorted(set(listed)), "exports.txt is not sorted"
