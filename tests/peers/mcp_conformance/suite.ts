const SUITE = "npm:@modelcontextprotocol/conformance@0.2.0-alpha.12";
const here = new URL(".", import.meta.url).pathname;

/** The revisions that the suite holds the hub to. */
export const REVISIONS = ["2025-11-25", "2026-07-28"];

/** Runs the suite's scenarios of one revision against a server or a client; prints what failed. True when nothing scored did. */
export async function runSuite(
  mode: "server" | "client",
  revision: string,
  target: readonly string[],
): Promise<boolean> {
  const results = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-conformance-" });
  try {
    const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: [
        "run",
        "--no-prompt",
        `--config=${here}deno.json`,
        "--allow-net=127.0.0.1,localhost,0.0.0.0,[::],[::1]",
        "--allow-env",
        "--allow-read",
        "--allow-run",
        `--allow-write=${results}`,
        "--allow-sys",
        SUITE,
        mode,
        ...target,
        "--requirements",
        revision,
        "--expected-failures",
        `${here}${mode}-${revision}.yml`,
        "-o",
        results,
      ],
      env: { NO_COLOR: "1" },
    }).output();
    const text = new TextDecoder().decode(stdout.length > 0 ? stdout : stderr);
    console.log(`${mode} ${revision}: ${success ? "ok" : "FAILED"}`);
    if (!success) {
      console.log(text.slice(Math.max(0, text.search(/=== (SUITE )?SUMMARY/))));
      for (const failure of await failuresOf(results)) console.log(failure);
    }
    return success;
  } finally {
    await Deno.remove(results, { recursive: true });
  }
}

async function failuresOf(folder: string): Promise<string[]> {
  const failures: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const path = `${folder}/${name}`;
    if (isDirectory) failures.push(...await failuresOf(path));
    else if (name === "checks.json") {
      const checks: Check[] = JSON.parse(await Deno.readTextFile(path));
      for (const { id, status, errorMessage, details } of checks) {
        if (status !== "FAILURE" && status !== "WARNING") continue;
        const why = JSON.stringify({ errorMessage, details }).slice(0, 400);
        failures.push(`  ${path.split("/").at(-2)} ${id}: ${why}`);
      }
    }
  }
  return failures.toSorted();
}

interface Check {
  id: string;
  status: string;
  errorMessage?: string;
  details?: unknown;
}
