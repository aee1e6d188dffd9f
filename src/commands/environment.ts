import { BerthError } from "../lib/errors.ts";
import { openOwnFolder, type OwnFolder, ownFolderHere } from "./own-folder.ts";

/** Options of every command that opens the store and the image. */
export interface EnvironmentOptions {
  readonly data?: string;
  readonly image?: string;
  /** The folder of one's own that is served. Default: the working folder if it is one, unless an image is named. */
  readonly folder?: OwnFolder;
  readonly readonly?: boolean;
}

/** Likewise of a command that serves. */
export interface ServeEnvironmentOptions extends EnvironmentOptions {
  readonly port?: string;
  readonly host?: string;
  readonly workers?: string;
}

/**
 * A flag is another notation for a variable, so both are read and checked in one place. A data folder that is named is
 * meant, whatever the environment says of a database.
 */
export function environmentOf(options: ServeEnvironmentOptions): NodeJS.ProcessEnv {
  const { port, host, workers, data, image } = options;
  const folder = servedFolder(options);
  return {
    ...process.env,
    ...(folder && { BERTH_IMAGE_DIR: folder.image, BERTH_DATA: process.env["BERTH_DATA"] || folder.data }),
    ...(port !== undefined && { BERTH_PORT: port }),
    ...(host !== undefined && { BERTH_HOST: host }),
    ...(workers !== undefined && { BERTH_WORKERS: workers }),
    ...(data !== undefined && { BERTH_DATA: data, BERTH_DATABASE: undefined, BERTH_DATABASE_FILE: undefined }),
    ...(image !== undefined && { BERTH_IMAGE_DIR: image }),
  };
}

/** The folder of one's own that is served, unless an image is. */
export function servedFolder({ folder, image }: EnvironmentOptions): OwnFolder | undefined {
  return folder ?? (image || process.env["BERTH_IMAGE_DIR"] ? undefined : ownFolderHere());
}

/** The folder that a person names to serve. Throws `config_invalid`. */
export function folderToServe(path: string, { image }: EnvironmentOptions): OwnFolder {
  if (image !== undefined)
    throw new BerthError("config_invalid", `${path} and --image ${image} are two things to serve: leave one out`);
  return openOwnFolder(path);
}
