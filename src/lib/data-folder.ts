/** The default data folder, next to the sources that Berth serves. */
export const DATA_FOLDER = ".berth";

/** True for a path, relative to a folder of sources, into the data next to them: keys, secrets, tenants' data. */
export function isInDataFolder(path: string): boolean {
  const [first] = path.split(/[\\/]/);
  // Some file systems ignore case.
  return first?.toLowerCase() === DATA_FOLDER;
}
