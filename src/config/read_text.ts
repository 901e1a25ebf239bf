/** Text of a file, or null when there is none at that path; rejects when it is there and cannot be read. */
export async function readTextIfThere(path: string): Promise<string | null> {
  try {
    return await Deno.readTextFile(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}
