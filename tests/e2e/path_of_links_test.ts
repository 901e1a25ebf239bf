import assert from "node:assert/strict";
import { command, startHubProcess } from "../support/hub_process.ts";

/** Runs a body in a folder with another one that links to the system's `sh`, or has nothing in it. */
async function withPath(
  { programs, mode }: { programs: readonly string[]; mode: number },
  body: (folder: string, path: string) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-path-" });
  const path = `${folder}/links`;
  await Deno.mkdir(path);
  await Deno.chmod(folder, mode);
  for (const name of programs) await Deno.symlink(`/bin/${name}`, `${path}/${name}`);
  try {
    await body(folder, path);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const PUBLIC = 0o755;
const PRIVATE = 0o700;

/** Starts a hub that must refuse to, and gives what it says besides its log. */
async function refusal(folder: string, path: string): Promise<string> {
  const { code, err } = await command(folder, ["start"], { PATH: path });
  assert.equal(code, 3, err);
  // The runtime's own note begins with `Info`.
  const said = err.split("\n").filter((line) => line !== "" && !/^(?:\{|Info )/.test(line));
  assert.equal(said.length, 1, err);
  return said[0] ?? "";
}

Deno.test("a hub whose PATH has nothing but links starts its own Postgres, and workers", async () => {
  await withPath({ programs: ["sh"], mode: PUBLIC }, async (folder, path) => {
    const hub = await startHubProcess(folder, { PATH: path }, ["--replicas", "2"]);
    try {
      assert.ok((await fetch(`${hub.url}/readyz`)).ok);
    } finally {
      assert.equal(await hub.end("SIGTERM"), 0, hub.err());
    }
  });
});

Deno.test("a hub without sh in its PATH says so in one line", async () => {
  await withPath({ programs: [], mode: PUBLIC }, async (folder, path) => {
    const said = await refusal(folder, path);
    assert.match(said, /^The hub starts programs by sh, and no folder of PATH \(.+\) has it: /);
    assert.ok(said.includes(path));
  });
});

Deno.test({
  name: "a hub whose sh the user of its Postgres cannot start says so in one line",
  // Others than root run Postgres themselves.
  ignore: Deno.uid() !== 0,
  async fn() {
    await withPath({ programs: ["sh"], mode: PRIVATE }, async (folder, path) => {
      const said = await refusal(folder, path);
      assert.match(
        said,
        /^The user \w+, who runs the embedded Postgres, cannot start \/tmp\/.*\/sh, /,
      );
    });
  },
});
