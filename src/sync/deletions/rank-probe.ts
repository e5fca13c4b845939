// The rank probe: finds vanished records with few small requests. It asks the upstream's list, sorted by key, for its N-th record. If that
// is our N-th row, the list has as many records below it as we have rows, and nothing has vanished. If it is another, halving finds the
// place. Behind our last row the list may show nothing, or newer records. If it shows its last page again in every place behind, ranks
// tell nothing. One vanished and one unknown record below N cancel each other, so another place is compared now and then, and the sweep never
// stops altogether. Pure but for its questions.

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
  /** Keys of the list that we have no row of, also the first one behind our last row. */
  readonly unknown: readonly bigint[]
  /** In the place behind our last row, the list showed that row's key again, or a lower one. */
  readonly repeats: boolean
  /** Every difference up to the highest of our keys is explained; false: there are more than `mostFound`, some cancel each other, or the list repeats itself. */
  readonly isWhole: boolean
  /** How many places were asked for. */
  readonly compared: number
}

/**
 * How many records the list has up to our highest row: from its place downwards in growing steps, and between the last two by halving. A
 * record that vanished and one that is missing here cancel each other, so no fewer have vanished than this says.
 */
export async function countListed({ count, ours, theirs }: RankSides): Promise<number> {
  const highest = await ours(count)
  if (highest === null) return 0
  const isUpTo = async (rank: number) => {
    const key = rank > 0 ? await theirs(rank) : null
    return rank === 0 || (key !== null && key <= highest)
  }
  if (await isUpTo(count)) return count
  let above = count
  let step = 1
  while (!(await isUpTo(Math.max(0, count - step)))) {
    above = Math.max(0, count - step)
    step *= 2
  }
  let upTo = Math.max(0, count - step)
  while (above - upTo > 1) {
    const middle = upTo + Math.floor((above - upTo) / 2)
    if (await isUpTo(middle)) upTo = middle
    else above = middle
  }
  return upTo
}

/**
 * `spot` is a place anywhere: a record that vanished and one that is missing here differ in all places between them, and in none behind.
 * `isThorough`: it is compared although nothing differs so far.
 */
export async function probeRanks(
  sides: RankSides,
  mostFound: number,
  spot: number,
  isThorough = true,
): Promise<RankFindings> {
  const vanished: bigint[] = []
  let compared = 0
  const unknown: bigint[] = []
  /** The place of the list that should hold our row with this rank, by what was found so far. */
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
  /** Those that cancel each other differ in no place behind them: they stand anywhere, or beside what was found last. */
  const differsBelow = async (): Promise<number | null> => {
    const isNew = vanished.length + unknown.length === 0
    for (const rank of isNew ? (isThorough ? [spot] : []) : [settled + 1, settled + 2, spot])
      if (rank > settled && rank <= sides.count && !(await compare(rank)).isSame) return rank
    return null
  }
  while (vanished.length + unknown.length < mostFound) {
    const last = sides.count === 0 ? null : await compare(sides.count)
    const differing = last?.isSame === false ? sides.count : await differsBelow()
    if (differing === null) {
      const highest = last?.ours ?? null
      const behind = highest === null ? null : await sides.theirs(placeOf(sides.count, highest) + 1)
      const repeats = behind !== null && highest !== null && behind <= highest
      if (behind !== null && !repeats) unknown.push(behind)
      return { vanished, unknown, repeats, isWhole: !repeats, compared }
    }
    const found = await firstDifference(compare, settled, differing)
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

/** A place that differs, and the one before it does not. The higher place is known to differ. */
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
