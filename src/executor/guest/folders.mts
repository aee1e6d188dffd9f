import { FOLDER_VARIABLE } from "./wire.mts";

/** The paths of the program's folders, by name; read before the program can change its environment. */
export const folders: Readonly<Record<string, string>> = Object.freeze(
  Object.fromEntries(
    Object.entries(process.env).flatMap(([name, path]) =>
      name.startsWith(FOLDER_VARIABLE) && path !== undefined ? [[name.slice(FOLDER_VARIABLE.length), path]] : [],
    ),
  ),
);
