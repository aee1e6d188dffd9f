/** Options of every command that opens the store and the image. */
export interface EnvironmentOptions {
  readonly data?: string;
  readonly image?: string;
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
  return {
    ...process.env,
    ...(port !== undefined && { BERTH_PORT: port }),
    ...(host !== undefined && { BERTH_HOST: host }),
    ...(workers !== undefined && { BERTH_WORKERS: workers }),
    ...(data !== undefined && { BERTH_DATA: data, BERTH_DATABASE: undefined, BERTH_DATABASE_FILE: undefined }),
    ...(image !== undefined && { BERTH_IMAGE_DIR: image }),
  };
}
