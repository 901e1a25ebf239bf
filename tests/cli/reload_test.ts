import assert from "node:assert/strict";
import { Reloader } from "../../src/cli/reload.ts";
import type { LoadedConfig } from "../../src/config/load.ts";
import { HubError } from "../../src/core/error.ts";
import { loadText, LOCAL } from "../config/load_fixture.ts";
import { createFakeClock } from "../support/fake_clock.ts";
import { createRawLog } from "../support/providers_rig.ts";

Deno.test("a file is loaded again once it has changed and rests; a wrong one changes nothing", async () => {
  const clock = createFakeClock();
  const { log, lines } = createRawLog();
  const loaded = await loadText({ providers: { local: LOCAL } });
  const applied: LoadedConfig[] = [];
  const asked: (string | undefined)[] = [];
  const file = { stamp: "1", wrong: false };
  const reloader = new Reloader({
    source: "/hub/loophub.json",
    notes: loaded.notes,
    load(path) {
      asked.push(path);
      if (!file.wrong) return Promise.resolve(loaded);
      return Promise.reject(new HubError("invalid_configuration", "providers.x: got 1, wanted 2"));
    },
    apply: (next) => void applied.push(next),
    stampOf: () => Promise.resolve(file.stamp),
    clock,
    log,
  });
  await reloader.start();
  await clock.advance(4000);
  assert.deepEqual(asked, []);

  for (const stamp of ["2", "3", "4"]) {
    file.stamp = stamp;
    await clock.advance(400);
  }
  assert.deepEqual(asked, [], "it is still being written");
  await clock.advance(400);
  assert.deepEqual([asked, applied.length], [["/hub/loophub.json"], 1]);
  await clock.advance(4000);
  assert.equal(asked.length, 1);

  file.wrong = true;
  file.stamp = "5";
  await clock.advance(1200);
  assert.deepEqual([asked.length, applied.length], [2, 1]);
  const [line = ""] = lines;
  assert.match(line, /^The configuration was not reloaded: the last good one stays/);
  assert.match(line, /providers\.x: got 1, wanted 2/);
  await clock.advance(4000);
  assert.deepEqual([asked.length, lines.length], [2, 1], "said once");

  file.wrong = false;
  await Promise.all([reloader.reload(), reloader.reload()]);
  assert.deepEqual([asked.length, applied.length], [4, 3]);
  reloader.close();
  await reloader.reload();
  file.stamp = "6";
  await clock.advance(4000);
  assert.deepEqual([asked.length, applied.length, clock.pending()], [4, 3, 0]);
});

Deno.test("what is new of a changed file is said, what was said before is not again", async () => {
  const { log, lines } = createRawLog();
  const loaded = await loadText({ providers: { local: LOCAL } });
  const notes = { now: ["one", "two"] };
  const reloader = new Reloader({
    source: "/hub/loophub.json",
    notes: ["one"],
    load: () => Promise.resolve({ ...loaded, notes: notes.now }),
    apply() {},
    stampOf: () => Promise.resolve("1"),
    clock: createFakeClock(),
    log,
  });
  await reloader.reload();
  await reloader.reload();
  notes.now = ["one"];
  await reloader.reload();
  notes.now = ["two"];
  await reloader.reload();
  assert.deepEqual(lines.map((line) => line.split(" ")[0]), ["two", "two"]);
  reloader.close();
});
