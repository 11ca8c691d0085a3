# Links the programs of kept/ again, NAME as NAME.SEED for each of $layouts, with the first of $linkers that can.
set -f
order() { # the sections of functions in an order of this seed
    readelf --sections --wide all.o | grep -o ' \.text\.[^ ]*' | sort -u |
        awk -v seed="$1" 'BEGIN { srand(seed) } { print rand() "\t" $1 }' | sort -n | cut -f 2
}
script() {
    echo 'SECTIONS { .text.ordered : {'
    order "$1" | sed 's/.*/*(&)/'
    echo '} } INSERT BEFORE .text;'
}
link() { # directory, seed, linker
    cd "$1" || return
    case $3 in
        mold) options=-Wl,--shuffle-sections=$2 ;;
        lld) options=-Wl,--shuffle-sections=.text.*=$2 ;;
        gold) order "$2" >"order.$2" && options=-Wl,--section-ordering-file=order.$2 ;;
        bfd) script "$2" >"order.$2" && options=-Wl,-T,order.$2 ;;
    esac
    "$(cat compiler)" all.o @program -fuse-ld="$3" "$options" -o "../../${1##*/}.$2"
}
all() { # linker: two at a time
    for name in $programs; do
        waiting=
        for seed in $layouts; do
            (link "kept/$name" "$seed" "$1") &
            if [ "$waiting" ]; then
                wait "$waiting" || return
            fi
            waiting=$!
        done
        wait "$waiting" || return
    done
}
for linker in $linkers; do
    command -v "ld.$linker" >/dev/null && all "$linker" && echo "linked by $linker" && exit
done
echo "none of the linkers $linkers can link $programs in a random order" >&2
exit 1
