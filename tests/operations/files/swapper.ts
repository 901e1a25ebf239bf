/**
 * Exchanges what stands at `slot` with what stands at `spare`, again and again, until its input ends; prints how often.
 * Neither is ever missing for longer than a rename takes.
 */
const [slot = "", spare = ""] = Deno.args;
const parked = `${spare}.parked`;

/** An operation may have made a folder in the moment when there was nothing, and may be writing into it. */
function move(from: string, to: string): void {
  for (;;) {
    try {
      return Deno.renameSync(from, to);
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) throw error;
    }
    try {
      Deno.removeSync(to, { recursive: true });
    } catch {
      // Once more.
    }
  }
}

let isOver = false;
void (async () => {
  for await (const _ of Deno.stdin.readable);
  isOver = true;
})();
let swaps = 0;
while (!isOver) {
  for (let at = 0; at < 500; at++) {
    move(slot, parked);
    move(spare, slot);
    move(parked, spare);
    swaps++;
  }
  await new Promise((resolve) => setTimeout(resolve, 0));
}
await Deno.stdout.write(new TextEncoder().encode(String(swaps)));
