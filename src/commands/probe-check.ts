// One line of the probe.

export type Check = {
  readonly name: string
  /** False: something has to be done, and `says` tells what. */
  readonly isFine: boolean
  readonly says: string
}

export const failed = (name: string, error: unknown): Check => ({
  name,
  isFine: false,
  says: error instanceof Error ? error.message : String(error),
})
