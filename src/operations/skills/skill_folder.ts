import { HubError } from "../../core/error.ts";
import { folderOf, toPlace, type Workspace } from "../files/workspace.ts";
import type { WorkspaceFiles } from "../files/workspace_files.ts";
import { MAX_SKILL_BYTES } from "./read_skill.ts";

/** The file that makes a folder a skill. */
export const SKILL_FILE = "SKILL.md";

/** A folder that may be a skill; `bytes` null where there is no file that can be read. */
export interface FoundSkill {
  folder: string;
  bytes: Uint8Array | null;
}

/** A folder of skills, each in a folder of its own. */
export interface SkillFolder {
  /** As people read it. */
  shown: string;
  /** What is there now, sorted; nothing where the folder is not there. */
  find(signal: AbortSignal): Promise<FoundSkill[]>;
  /** Reads a file of a skill, by its path in the skill's folder. */
  read(skill: string, options: { path: string; signal: AbortSignal }): Promise<Uint8Array>;
  /** Paths of the files of a skill, `most` at most, sorted. */
  list(skill: string, options: { most: number; signal: AbortSignal }): Promise<string[]>;
}

/** Folders that are looked at, in one place. */
export const MAX_FOUND = 200;
const MAX_DEPTH = 4;

/** A folder below a workspace, read as operations on files read: nothing outside is reached, whatever links say. */
export function createSkillFolder(
  workspace: Workspace,
  { files, path }: { files: WorkspaceFiles; path: string },
): SkillFolder {
  const placeOf = (...names: string[]) => toPlace(workspace, [path, ...names].join("/"));
  return {
    shown: path === "." ? workspace.dir : path,
    async find(signal) {
      let entries;
      try {
        ({ entries } = await files.walk(placeOf(), { depth: 2, skip: [], signal }));
      } catch (error) {
        if (error instanceof HubError && error.code === "not_found") return [];
        throw error;
      }
      const folders = entries
        .filter(({ type, path }) => type === "folder" && !path.includes("/") && path !== ".")
        .map(({ path }) => path)
        .slice(0, MAX_FOUND);
      const have = new Set(
        entries.filter(({ type }) => type === "file").map((entry) => entry.path),
      );
      const wanted = folders.map((folder) => `${folder}/${SKILL_FILE}`);
      const there = wanted.filter((name) => have.has(name));
      const base = placeOf();
      const paths = there.map((name) => `${folderOf(base)}/${name}`);
      const read = there.length === 0
        ? []
        : await files.readMany(base.root, { paths, maxBytes: MAX_SKILL_BYTES + 1, signal });
      const bytesOf = new Map(read.map(({ index, bytes }) => [there[index], bytes]));
      return folders.map((folder) => ({
        folder,
        bytes: bytesOf.get(`${folder}/${SKILL_FILE}`) ?? null,
      }));
    },
    async read(skill, { path: name, signal }) {
      assertInside(name);
      return (await files.read(placeOf(skill, name), signal)).bytes;
    },
    async list(skill, { most, signal }) {
      const { entries } = await files.walk(placeOf(skill), { depth: MAX_DEPTH, skip: [], signal });
      return entries.filter(({ type }) => type === "file").map((entry) => entry.path)
        .slice(0, most);
    },
  };
}

/** A path of a file in a skill goes down only. */
function assertInside(path: string): void {
  const isInside = !path.startsWith("/") &&
    path.split("/").every((name) => name !== ".." && name !== "");
  if (isInside) return;
  throw new HubError(
    "permission_denied",
    `${JSON.stringify(path.slice(0, 200))} is outside of the skill: wanted a path in its folder`,
  );
}
