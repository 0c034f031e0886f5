# Removes what a run leaves on a node when nobody is left to do it: after.sh FOLDER [FILE...]
# One process holds the other end of stdin, a pipe; this begins when that process is gone, however it ended. What it has
# written there are the processes that are to end first. Folders above FOLDER go as well, up to one that is not empty.
exec 3<&0
{
  for pid in $(cat <&3); do
    while kill -0 "$pid"; do sleep 0.2; done
  done
  rm -rf -- "$@"
  rmdir -- "${1%/*}" && rmdir -- "${1%/*/*}"
} >/dev/null 2>&1 &
