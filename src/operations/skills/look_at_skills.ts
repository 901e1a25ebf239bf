import { MAX_SKILL_BYTES } from "./read_skill.ts";
import { type FoundSkill, MAX_FOUND, SKILL_FILE } from "./skill_folder.ts";

/** What is in a folder of the operator's, read without starting a program; links are not followed. */
export async function lookAtSkills(dir: string): Promise<FoundSkill[]> {
  const names: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(dir)) if (isDirectory) names.push(name);
  return await Promise.all(
    names.sort().slice(0, MAX_FOUND).map(async (folder) => ({
      folder,
      bytes: await readStart(`${dir}/${folder}/${SKILL_FILE}`).catch(() => null),
    })),
  );
}

async function readStart(path: string): Promise<Uint8Array | null> {
  const { isFile, size } = await Deno.lstat(path);
  if (!isFile) return null;
  if (size > MAX_SKILL_BYTES) return new Uint8Array(MAX_SKILL_BYTES + 1);
  return await Deno.readFile(path);
}
