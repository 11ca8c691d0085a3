# A compiler's wrapper: functions get sections of their own. A program of $artifacts is linked from one object, made by a
# partial link, in which optimisation at link time takes place once; it and the other arguments are kept.
output=a.out links=yes option=
for argument; do
    [ "$option" = -o ] && output=$argument
    option=$argument
    case $argument in
        -o?*) output=${argument#-o} ;;
        -c | -S | -E | -M | -MM | -r | -shared | -v | -fsyntax-only | --version | --help | -dump* | -print-*) links= ;;
    esac
done
case " $artifacts " in
    *" ${output##*/} "*) ;;
    *) links= ;;
esac
[ "$links" ] || exec "$real" "$@" -ffunction-sections

room=$kept/${output##*/}
rm -rf "$room"
mkdir -p "$room"
echo "$name" >"$room/compiler"
option=
for argument; do
    part="objects program"
    case $argument in
        -o | -o?* | -fuse-ld=*) part= ;;
        -flto* | -Wl,--whole-archive | -Wl,--no-whole-archive | -Wl,--start-group | -Wl,--end-group) part=objects ;;
        -l* | -Wl,* | -pie | -no-pie | -static | -static-pie | -rdynamic) part=program ;;
        -*) ;;
        *.o | *.a | *.lo | *.c | *.cc | *.cpp | *.cxx | *.s | *.S) part=objects ;;
    esac
    [ "$option" = -o ] && part=
    option=$argument
    for list in $part; do
        printf '%s\n' "$argument" | sed 's/[^A-Za-z0-9_.,/=+:@%-]/\\&/g' >>"$room/$list"
    done
done
touch "$room/program"
partial() {
    "$real" @"$room/objects" -ffunction-sections -r -nostdlib -Wl,-S -o "$room/all.o" "$@"
}
if { partial -flinker-output=nolto-rel 2>/dev/null || partial; } &&
    "$real" "$room/all.o" @"$room/program" -o "$output"; then
    exit
fi
echo "${output##*/} cannot be linked from one object, so it has no random layouts" >&2
rm -rf "$room"
exec "$real" "$@" -ffunction-sections
