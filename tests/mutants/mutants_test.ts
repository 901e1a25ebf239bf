import assert from "node:assert/strict";
import { startTestPostgres } from "../support/postgres.ts";
import { type Mutant, MUTANTS } from "./mutants.ts";

const root = new URL("../../", import.meta.url);
const PERMISSIONS = [
  "--allow-net=127.0.0.1",
  "--allow-env",
  "--allow-read",
  "--allow-write=/tmp",
  "--allow-sys=uid,gid,hostname",
];
const AT_ONCE = 2;

/** The file with its defect, as it can stand in another folder. Fails when the text to replace is not there once. */
async function mutate({ file, from, to, name }: Mutant): Promise<{ url: string; text: string }> {
  const url = new URL(`src/${file}`, root);
  const pieces = (await Deno.readTextFile(url)).split(from);
  assert.equal(pieces.length, 2, `"${name}" wants this once in src/${file}:\n${from}`);
  const text = pieces.join(to).replaceAll(
    /(?<=from ")\.{1,2}\/[^"]+/g,
    (path) => new URL(path, url).href,
  );
  return { url: url.href, text };
}

/** Runs test files with the source files of `folder` in place of the project's; gives what they print. */
async function runTests(
  tests: readonly string[],
  { folder, replaced, databaseUrl }: {
    folder: string;
    replaced: Record<string, string>;
    databaseUrl: string;
  },
): Promise<{ passed: boolean; output: string }> {
  const config = JSON.parse(await Deno.readTextFile(new URL("deno.json", root)));
  const path = `${folder}/deno.json`;
  await Deno.writeTextFile(
    path,
    JSON.stringify({
      imports: { ...config.imports, ...replaced },
      nodeModulesDir: config.nodeModulesDir,
      compilerOptions: config.compilerOptions,
      lock: { path: new URL("deno.lock", root).pathname, frozen: true },
    }),
  );
  const files = tests.map((test) => new URL(`tests/${test}`, root).pathname);
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["test", "--no-check", "--config", path, ...PERMISSIONS, ...files],
    cwd: root,
    env: { LOOPHUB_TEST_DATABASE_URL: databaseUrl, NO_COLOR: "1" },
  }).output();
  const output = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes)).join("\n");
  return { passed: success, output };
}

Deno.test("the suite notices when a guard of runs is taken away", async (t) => {
  const postgres = await startTestPostgres({ migrated: false });
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-mutants-" });
  const run = async (mutants: readonly Mutant[], defect: boolean) => {
    const own = `${folder}/${crypto.randomUUID()}`;
    await Deno.mkdir(own);
    const replaced: Record<string, string> = {};
    for (const mutant of mutants) {
      const { url, text } = await mutate(defect ? mutant : { ...mutant, to: mutant.from });
      const path = `${own}/${mutant.file.replaceAll("/", "_")}`;
      await Deno.writeTextFile(path, text);
      replaced[url] = `file://${path}`;
    }
    const tests = [...new Set(mutants.map(({ test }) => test))];
    return await runTests(tests, { folder: own, replaced, databaseUrl: postgres.url });
  };
  const lanes: Promise<unknown>[] = Array.from({ length: AT_ONCE }, () => Promise.resolve());
  const queue = <T>(work: () => Promise<T>, index: number): Promise<T> => {
    const lane = index % AT_ONCE;
    const done = (lanes[lane] ?? Promise.resolve()).then(work);
    lanes[lane] = done.catch(() => {});
    return done;
  };
  try {
    await t.step("without a defect nothing fails", async () => {
      const { passed, output } = await run(MUTANTS, false);
      assert.ok(passed, output);
    });
    const verdicts = MUTANTS.map((mutant, index) => queue(() => run([mutant], true), index));
    for (const [index, mutant] of MUTANTS.entries()) {
      await t.step(mutant.name, async () => {
        const { passed, output } = await (verdicts[index] ?? assert.fail("not run"));
        assert.ok(!passed, "Nothing failed");
        const failed = output.split("\n").some((line) =>
          line.trim().startsWith(`${mutant.caughtBy} ...`) && line.includes("FAILED")
        );
        assert.ok(failed, `"${mutant.caughtBy}" did not fail:\n${output}`);
        assert.match(output, /AssertionError/);
      });
    }
  } finally {
    await Promise.all(lanes);
    await postgres.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
