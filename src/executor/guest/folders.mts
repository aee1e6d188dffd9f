import { FOLDER_VARIABLE } from "./wire.mts";

/** Where the folders of the machine are that the program is given, by name; known before it has a say in anything. */
export const folders: Readonly<Record<string, string>> = Object.freeze(
  Object.fromEntries(
    Object.entries(process.env).flatMap(([name, path]) =>
      name.startsWith(FOLDER_VARIABLE) && path !== undefined ? [[name.slice(FOLDER_VARIABLE.length), path]] : [],
    ),
  ),
);
