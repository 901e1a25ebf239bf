const hasTaskset = await new Deno.Command("sh", {
  args: ["-c", "command -v taskset"],
  stdout: "null",
}).output().then((output) => output.success);

/** A command on one core where `taskset` exists: 0 is the generator's, 1 the target's. Arguments of `Deno.Command`. */
export function pinned(
  core: 0 | 1,
  command: string,
  args: readonly string[],
  options: Deno.CommandOptions = {},
): [string, Deno.CommandOptions] {
  return hasTaskset
    ? ["taskset", { ...options, args: ["-c", String(core), command, ...args] }]
    : [command, { ...options, args: [...args] }];
}
