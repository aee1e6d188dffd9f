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

/** A flag is another notation for a variable, so both are read and checked in one place. */
export function environmentOf(options: ServeEnvironmentOptions): NodeJS.ProcessEnv {
  const { port, host, workers, data, image } = options;
  return {
    ...process.env,
    ...(port !== undefined && { BERTH_PORT: port }),
    ...(host !== undefined && { BERTH_HOST: host }),
    ...(workers !== undefined && { BERTH_WORKERS: workers }),
    ...(data !== undefined && { BERTH_DATA: data }),
    ...(image !== undefined && { BERTH_IMAGE_DIR: image }),
  };
}
