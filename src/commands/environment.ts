/** Options of every command that opens the store and the image. */
export interface EnvironmentOptions {
  readonly data?: string;
  readonly image?: string;
  readonly readonly?: boolean;
}

/** A flag is another notation for a variable, so both are read and checked in one place. */
export function environmentOf(options: EnvironmentOptions & { port?: string; host?: string }): NodeJS.ProcessEnv {
  const { port, host, data, image } = options;
  return {
    ...process.env,
    ...(port !== undefined && { BERTH_PORT: port }),
    ...(host !== undefined && { BERTH_HOST: host }),
    ...(data !== undefined && { BERTH_DATA: data }),
    ...(image !== undefined && { BERTH_IMAGE_DIR: image }),
  };
}
