# Starts the supervisor of an Airlane run ($1) with the Python that Ray runs on here, wherever PATH leads.
umask 077
own=$(sed -nE 's#^.* (/.*)/lib/python3[^/]*/(site|dist)-packages/ray/_raylet\.so$#\1#p' "/proc/$PPID/maps" 2>/dev/null | head -n 1)
for python in "$own/bin/python3" "$own/bin/python" python3 python; do
  if "$python" -c 'import importlib.util as u, sys; sys.exit(u.find_spec("ray") is None)' 2>/dev/null; then
    exec "$python" boot.py "$1"
  fi
done
echo "airlane: no Python with Ray was found on $(uname -n): tried $own/bin/python3, and python3 on PATH" >&2
exit 78
