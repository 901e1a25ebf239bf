import assert from "node:assert/strict";
import fc from "fast-check";
import { property } from "../../support/property.ts";
import { bubblewrap } from "../files/rig.ts";
import { type Way, withShell } from "./rig.ts";

/** Gives the number of its arguments and their bytes. */
const SHOW = `#!/bin/sh
printf '%s\\0' "$#" "$@" | od -An -v -tx1
`;

/** What shells, options and environments would make something else of. */
const HOSTILE = [
  ...["", " ", "\n", "\t", "\r\n", "-", "--", "-c", "-n", "--help", "--upload-pack=touch owned"],
  ...[
    "$HOME",
    "${IFS}",
    "$(touch owned)",
    "`touch owned`",
    "; touch owned",
    "| cat",
    "&",
    ">owned",
  ],
  ...["*", "?", "[a-z]", "~", "!!", "a=b", "PATH=/", "'", '"', "\\", "\\n", "%s", "#", "{a,b}"],
  ...["é", "日本語", "🙂", "\u202e", "\ufeff", "\u0001", "\u001b[2J"],
];
const Argument = fc.oneof(
  fc.constantFrom(...HOSTILE),
  fc.string({ unit: "binary", maxLength: 40 }),
  fc.string({ unit: "grapheme", maxLength: 40 }),
  fc.array(fc.constantFrom(...HOSTILE), { maxLength: 4 }).map((parts) => parts.join("")),
).filter((text) => !text.includes("\0"));
const Arguments = fc.array(Argument, { maxLength: 12 });

for (const way of ["boxed", "open", "free"] satisfies Way[]) {
  property(
    `whatever the arguments are, the program gets the same bytes (${way})`,
    fc.array(Arguments, { minLength: 1, maxLength: 4 }),
    (commands) =>
      withShell(way, async ({ ws, call }) => {
        await Deno.writeTextFile(`${ws}/show`, SHOW, { mode: 0o755 });
        for (const args of commands) {
          const outcome = await call("run", { command: "./show", args });
          assert.ok(outcome.ok, JSON.stringify(outcome));
          const [, shown = ""] = String(outcome.output).split("--- stdout\n");
          const wanted = [String(args.length), ...args].map((text) => `${text}\0`).join("");
          assert.equal(shown.replaceAll(/\s/g, ""), new TextEncoder().encode(wanted).toHex());
        }
        assert.deepEqual([...Deno.readDirSync(ws)].map(({ name }) => name), ["show"]);
      }),
    { runs: 12, ignore: way !== "open" && !bubblewrap.works },
  );
}
