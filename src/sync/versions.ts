// Row versions of a page: the highest, and whether they are in order. Pure.

export function highest<Known extends bigint | null>(
  versions: readonly bigint[],
  known: Known,
): bigint | Known {
  return versions.reduce<bigint | Known>(
    (most, version) => (most === null || version > most ? version : most),
    known,
  )
}

export function isAscending(versions: readonly bigint[]): boolean {
  return versions.every((version, index) => index === 0 || version >= (versions[index - 1] ?? version))
}

/** What is wrong with the order of a page that was sorted. */
export function outOfOrder(versions: readonly bigint[]): string {
  const at = versions.findIndex((version, index) => index > 0 && version < (versions[index - 1] ?? version))
  return at < 0 ? 'no row version at all' : `${versions[at]} behind ${versions[at - 1]}`
}

/** The same of a page that was sorted from the newest down; false: nothing. */
export function isOutOfDescent(versions: readonly bigint[]): string | false {
  const at = versions.findIndex((version, index) => index > 0 && version > (versions[index - 1] ?? version))
  return at >= 0 && `${versions[at]} behind ${versions[at - 1]}, from the newest down`
}

/** Sorted as text, 10 comes before 9: in a page that was sorted, 9 before 10 proves that it is sorted by number. */
export function provesNumbers(versions: readonly bigint[]): boolean {
  const isProof = (version: bigint, index: number) => {
    const before = versions[index - 1] ?? version
    return digitsOf(before) < digitsOf(version) && String(before) > String(version)
  }
  return versions.some(isProof) && isAscending(versions)
}

export const digitsOf = (version: bigint): number => String(version).length
