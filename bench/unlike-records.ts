// Records as no service that we know writes them, for nothing may be fast only because it is like our own: decimals of twelve digits, keys in
// another order than versions, versions of four to seven digits, long texts with escapes, objects and lists in every tenth record, and a
// field that is a number in the first three fifths and a text after. Made by formula, so that every run reads the same.

const sentences = [
  'Der Kunde sagt: \\"bitte erst nach 15 Uhr\\", \\u00dcbergabe an der Rampe',
  'Pumpe getauscht\\nDruck 4,2 bar\\nkeine Leckage – geprüft',
  'Vérifier l\\u2019accès par la cour intérieure, digicode \\"A47\\"',
  'Siehe C:\\\\Auftraege\\\\2024\\tAnlage 3',
  'Sans suite, le client rappelle demain',
  '点検済み。次回は来月\\u3002',
] as const
const towns = ['Saarbr\\u00fccken', 'Köln', 'Liège', 'Nancy', 'Arlon', 'Trier', 'Metz'] as const

/** More keys than there are records of any bench; prime, so that no key comes twice. */
const keys = 1_000_003
const keyOf = (rank: number): number => 1 + ((rank * 48_271) % keys)
const lastVersion = 5_000_000
const versionOf = (rank: number, count: number): number =>
  1_000 + rank + Math.floor(lastVersion * (rank / count) ** 3)

const pad = (number: number, length: number): string => String(number).padStart(length, '0')
/** Twelve digits, as many of them behind the point as asked for; the last one is no zero. */
const decimal = (bits: number, fraction: number): string => {
  const digits = pad((bits * 2_654_435_761) % 1e11, 11) + (1 + (bits % 9))
  return `${bits % 3 === 0 ? '-' : ''}${Number(digits.slice(0, 12 - fraction))}.${digits.slice(12 - fraction)}`
}
const long = (rank: number, count: number): string =>
  Array.from({ length: count }, (_, at) => sentences[(rank * 7 + at * at + at) % sentences.length]).join(' ')
const moment = (rank: number): string =>
  `20${10 + (rank % 15)}-${pad(1 + (rank % 12), 2)}-${pad(1 + (rank % 28), 2)}T${pad(rank % 24, 2)}:${pad((rank * 7) % 60, 2)}:${pad((rank * 11) % 60, 2)}`

const parts = (rank: number): string =>
  `"parts":[{"sku":"S-${rank % 977}","pieces":${rank % 12},"price":${decimal(rank, 8)}},{"sku":"T-${rank % 83}","pieces":1,"note":"\\"fragil\\""}],"site":{"gate":"${rank % 40}","at":{"lon":${decimal(rank + 1, 10)},"lat":${decimal(rank + 2, 10)}},"tags":["a",null,true]},`

/** The text of the record that comes after `rank` others, of `count`. */
export function unlikeRecord(rank: number, count: number): string {
  const isLate = rank >= 0.6 * count
  return `{"title":"${sentences[rank % sentences.length]}","rowVersion":${versionOf(rank, count)},"open":${rank % 4 === 0},"lat":${decimal(rank, 10)},"lon":${decimal(rank + 3, 10)},"alt":${decimal(rank + 4, 8)},"speed":${decimal(rank + 5, 9)},"net":${decimal(rank + 6, 4)},"tax":${decimal(rank + 7, 4)},"gross":${decimal(rank + 8, 4)},"rate":${decimal(rank + 9, 11)},"load":${decimal(rank + 10, 6)},"length":${decimal(rank + 11, 7)},"width":${decimal(rank + 12, 7)},"height":${decimal(rank + 13, 7)},"balance":${decimal(rank + 14, 2)},${rank % 10 === 0 ? parts(rank) : ''}"reference":${isLate ? `"R-${rank}"` : rank * 3},"assignmentId":${keyOf(rank)},"town":"${towns[rank % towns.length]}","report":"${long(rank, 9)}","remark":${rank % 3 === 0 ? `"${long(rank + 1, 3)}"` : 'null'},"begun":"${moment(rank)}+02:00","ended":${rank % 2 === 0 ? `"${moment(rank + 1)}.125Z"` : 'null'},"changed":"${moment(rank + 2)}Z","team":${rank % 37},"owner":"${pad(rank % 900, 8)}-1c2d-4e3f-8a9b-${pad(rank, 12)}","code":"${(rank * 7_919) % 99_991}","state":${rank % 9},"flags":null,"paid":${rank % 5 === 0}}`
}
