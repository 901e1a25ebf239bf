/** Copies a folder with owners and modes. */
export async function copyFolder(from: string, to: string): Promise<void> {
  await Deno.mkdir(to);
  await takeRights(from, to);
  for await (const { name, isDirectory, isSymlink } of Deno.readDir(from)) {
    const [source, target] = [`${from}/${name}`, `${to}/${name}`];
    if (isDirectory) await copyFolder(source, target);
    else if (isSymlink) await Deno.symlink(await Deno.readLink(source), target);
    else {
      await Deno.copyFile(source, target);
      await takeRights(source, target);
    }
  }
}

async function takeRights(from: string, to: string): Promise<void> {
  const { mode, uid, gid } = await Deno.stat(from);
  // Others than root own what they make.
  if (Deno.uid() === 0) await Deno.chown(to, uid, gid);
  if (mode !== null) await Deno.chmod(to, mode & 0o7777);
}
