/** The files of a folder, at any depth, whose names end so; sorted. */
export function filesUnder(folder: string, ending: string): string[] {
  const found = [...Deno.readDirSync(folder)].flatMap(({ name, isDirectory }) => {
    const path = `${folder}/${name}`;
    if (isDirectory) return filesUnder(path, ending);
    return name.endsWith(ending) ? [path] : [];
  });
  return found.sort();
}
