// The rank probe: finds vanished records with few small requests. The upstream's list, sorted by key, is asked for its N-th record. While
// it is our N-th, as many records are there below it as here, and nothing has vanished. When it is another, halving finds the place.
// Behind our last there may be none, or newer ones: a list that shows its last page in every place behind it has any number of records.
// One vanished and one unknown record below N cancel each other, so the sweep never stops altogether. Pure but for its questions.

export type RankSides = {
  /** How many of our rows the list shows. */
  readonly count: number
  /** The key of our row with this rank, counted from 1, in the order of keys. */
  ours(rank: number): Promise<bigint | null>
  /** The key of the record that the list has in this place; null when the list is shorter. */
  theirs(rank: number): Promise<bigint | null>
}

export type RankFindings = {
  /** Keys of ours that the list lacks: suspects, to be looked at one by one. */
  readonly vanished: readonly bigint[]
  /** Keys of the list that we have no row of; the first one behind our last, too. */
  readonly unknown: readonly bigint[]
  /** Behind the place of our last the list showed that one or a lower one. */
  readonly repeats: boolean
  /** Everything up to the highest of our keys has been explained; false: there is more than `mostFound`. */
  readonly isWhole: boolean
  /** How many places were asked for. */
  readonly compared: number
}

export async function probeRanks(sides: RankSides, mostFound: number): Promise<RankFindings> {
  const vanished: bigint[] = []
  let compared = 0
  const unknown: bigint[] = []
  /** Where the list has our row with this rank, as far as what was found tells. */
  const placeOf = (rank: number, key: bigint): number =>
    rank - vanished.filter((gone) => gone <= key).length + unknown.filter((more) => more < key).length
  const compare = async (rank: number): Promise<Comparison> => {
    const ours = await sides.ours(rank)
    if (ours === null) return { ours: null, theirs: null, isSame: true }
    if (vanished.includes(ours)) return { ours, theirs: null, isSame: true }
    compared += 1
    const theirs = await sides.theirs(Math.max(1, placeOf(rank, ours)))
    return { ours, theirs, isSame: theirs === ours }
  }
  let settled = 0
  while (vanished.length + unknown.length < mostFound) {
    const last = sides.count === 0 ? null : await compare(sides.count)
    if (last === null || last.isSame) {
      const highest = last?.ours ?? null
      const behind = highest === null ? null : await sides.theirs(placeOf(sides.count, highest) + 1)
      if (behind === null || highest === null)
        return { vanished, unknown, repeats: false, isWhole: true, compared }
      const repeats = behind <= highest
      return {
        vanished,
        unknown: repeats ? unknown : [...unknown, behind],
        repeats,
        isWhole: !repeats,
        compared,
      }
    }
    const found = await firstDifference(compare, settled, sides.count)
    settled = found.rank - 1
    const { ours, theirs } = found
    if (ours === null) break
    if (theirs === null || theirs > ours) vanished.push(ours)
    else if (unknown.includes(theirs)) break
    else unknown.push(theirs)
  }
  return { vanished, unknown, repeats: false, isWhole: false, compared }
}

type Comparison = { readonly ours: bigint | null; readonly theirs: bigint | null; readonly isSame: boolean }

/** A place that differs, and the one before it does not. The highest place is known to differ. */
async function firstDifference(
  compare: (rank: number) => Promise<Comparison>,
  same: number,
  differing: number,
): Promise<Comparison & { readonly rank: number }> {
  let low = same
  let high = differing
  let found: Comparison | null = null
  while (high - low > 1) {
    const middle = low + Math.floor((high - low) / 2)
    const seen = await compare(middle)
    if (seen.isSame) low = middle
    else {
      high = middle
      found = seen
    }
  }
  return { ...(found ?? (await compare(high))), rank: high }
}
