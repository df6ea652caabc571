# A scripted session with the installed package, run outside the checkout: sh wheel.sh BIN
set -eu
bin=$1
printf ':temp 0\n:tokens 40\nROMEO:\n' | "$bin/gptrepl" > samples.txt
printf ':profile greedy\n:tokens 40\nROMEO:\n' | "$bin/python" -m gptrepl > again.txt
cmp samples.txt again.txt
test "$(head -c 6 samples.txt)" = ROMEO:
test "$(tail -n 1 samples.txt)" = ---------------
"$bin/gptrepl" --version
echo 'the wheel runs'
