/** Programs that tests use where they are installed, and what is left out without each. */
export const OPTIONAL_PROGRAMS = {
  openssl: "TLS towards providers",
  curl: "the first steps as they are pasted into a shell",
  pgbouncer: "replicas behind PgBouncer",
  chromium: "pages of other origins in a real browser",
} as const;

/** One of them. */
export type OptionalProgram = keyof typeof OPTIONAL_PROGRAMS;

/** Whether the program is in the search path. Starts nothing: a program that is missing makes `Deno.Command` throw at once. */
export function hasProgram(name: string, path = Deno.env.get("PATH") ?? ""): boolean {
  return path.split(":").filter((folder) => folder !== "").some((folder) => {
    try {
      const { isFile, mode } = Deno.statSync(`${folder}/${name}`);
      return isFile && ((mode ?? 0o111) & 0o111) !== 0;
    } catch {
      return false;
    }
  });
}

/** One line for each missing program. */
export function describeMissing(path?: string): string[] {
  return Object.entries(OPTIONAL_PROGRAMS)
    .filter(([name]) => !hasProgram(name, path))
    .map(([name, what]) => `Tests with ${name} are left out (${what}): it is not installed`);
}
