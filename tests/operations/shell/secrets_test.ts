import assert from "node:assert/strict";
import { PATH } from "../files/rig.ts";
import { withShell } from "./rig.ts";

const TOKEN = "tok-5ecret/Value+17";
const env = { PATH, HOME: "/tmp", BUILD_TOKEN: TOKEN, BUILD_MODE: "release" };

Deno.test("what commands are seen to write has no credential of their environment", async () => {
  await withShell("open", async ({ ok, fails, progressed }) => {
    const shown = await ok("env; env >&2; printf %s $BUILD_TOKEN | base64");
    assert.match(shown, /BUILD_TOKEN=\[redacted\][^]*--- stderr[^]*BUILD_TOKEN=\[redacted\]/);
    assert.match(shown, /BUILD_MODE=release/);
    assert.ok(!shown.includes(btoa(TOKEN).slice(0, 20)));
    const failed = await fails("env; sleep 60", { timeoutMs: 400 });
    assert.match(failed, /BUILD_TOKEN=\[redacted\]/);
    // In pieces, each of which is told by itself unless something waits for its end.
    const [head, tail] = [TOKEN.slice(0, 9), TOKEN.slice(9)];
    const pieces = `printf '%s' '${head}'; sleep 0.4; printf '%s\n' '${tail}'; sleep 0.4; echo end`;
    assert.match(await ok(pieces), /\[redacted\]\nend/);
    const told = progressed.map((data) => (data as { stdout?: string }).stdout ?? "").join("");
    assert.ok(told.includes("[redacted]\nend"), told);
    assert.ok(!told.includes(tail) && !told.includes(head), told);
  }, { env });
});
