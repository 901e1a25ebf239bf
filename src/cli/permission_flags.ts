import { HubError } from "../core/error.ts";

/** What the hub needs, as the task `start` of `deno.json` names it; `only` where it needs no more than that. */
const NEEDS: readonly { name: "net" | "env" | "read" | "write" | "run" | "sys"; only?: string }[] =
  [
    { name: "net" },
    { name: "env" },
    { name: "read" },
    { name: "write" },
    { name: "run", only: "sh" },
    { name: "sys", only: "uid,gid,hostname" },
  ];

/**
 * The flags that give a worker the permissions of this process. Throws `invalid_configuration` when a permission was
 * narrowed by its flag: the runtime does not tell to what, and a worker must not have more.
 */
export function permissionFlags(
  isGranted: (name: Deno.PermissionDescriptor["name"]) => boolean,
): string[] {
  return NEEDS.map(({ name, only }) => {
    if (isGranted(name)) return `--allow-${name}`;
    if (only !== undefined) return `--allow-${name}=${only}`;
    throw new HubError(
      "invalid_configuration",
      `Workers want --allow-${name} without a list: start the hub with the permissions of the task start, or one process per port`,
    );
  });
}
