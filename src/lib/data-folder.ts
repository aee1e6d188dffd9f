/** The folder, beside the sources that it serves, in which Berth keeps its data unless it is told another. */
export const DATA_FOLDER = ".berth";

/** True for a path, relative to a folder of sources, into the data beside them: keys, secrets, what tenants keep. */
export function isInDataFolder(path: string): boolean {
  const [first] = path.split(/[\\/]/);
  // Some file systems know one file by several spellings.
  return first?.toLowerCase() === DATA_FOLDER;
}
