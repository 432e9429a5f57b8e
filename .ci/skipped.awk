# Prints from the output of go test -v which tests were skipped, and why.
/^=== / { name = $3; next } # what is printed until the next such line is of that test
/^ *--- SKIP: / { print "skipped: " $3 ":" said[$3]; n++; next }
/^ +[^ ]+\.go:[0-9]+: / { said[name] = $0; sub(/^ +[^ ]+:[0-9]+:/, "", said[name]) }
/^ +> .*skip '/ { said[name] = $0; sub(/.*skip '/, " ", said[name]); sub(/'$/, "", said[name]) } # of a script
END { print n + 0 " skipped" }
