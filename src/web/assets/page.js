// The script of the pages: it shows what has changed, says whether it is in touch, knows some keys, copies, and filters what is there.
// Pages are complete without it.

const connection = document.querySelector('[data-connection]')
const followed = document.querySelector('[data-follows]')
const followEveryMs = 3_000
const longestRestMs = 20_000
const silentMs = 10_000
let isAsking = false
let nextMs = followEveryMs

/** A page that follows nothing calls itself neither live nor cut off. */
function say(state) {
  if (connection.dataset.connection === state) return
  connection.dataset.connection = state
  if (!followed) return
  connection.textContent = state
  connection.classList.toggle('off', state !== 'live')
  document.body.classList.toggle('old', state !== 'live')
}

const shownByScript = '[data-copy], [data-copy-from]'

/** Changes what differs alone: focus, what is opened and how far it is scrolled stay. Elements with an id are told apart by it. */
function become(place, { childNodes, children }) {
  const ids = new Set([...children].map(({ id }) => id))
  let at = place.firstChild
  for (const node of [...childNodes]) {
    const known = node.id ? [...place.children].find(({ id }) => id === node.id) : at
    if (!known || known.nodeName !== node.nodeName || (known.id ?? '') !== (node.id ?? '')) {
      place.insertBefore(node, at)
      continue
    }
    while (at && at !== known && !(at.id && ids.has(at.id))) at = removed(at)
    if (at === known) at = known.nextSibling
    else place.insertBefore(known, at)
    // What somebody typed came back with its mistake once: the page does not know it any more.
    if (known.nodeType === Node.ELEMENT_NODE && known.matches('[data-mistake]')) continue
    if (node.nodeType !== Node.ELEMENT_NODE) {
      if (known.nodeValue !== node.nodeValue) known.nodeValue = node.nodeValue
      continue
    }
    for (const { name } of [...known.attributes])
      if (name !== 'open' && !node.hasAttribute(name)) known.removeAttribute(name)
    for (const { name, value } of node.attributes)
      if (known.getAttribute(name) !== value && !(name === 'hidden' && known.matches(shownByScript)))
        known.setAttribute(name, value)
    become(known, node)
  }
  while (at) at = removed(at)
}

function removed(node) {
  const next = node.nextSibling
  node.remove()
  return next
}

/** The page as it is now; one that follows nothing wants only the number of problems. Returns how the worker answers. */
async function askAgain() {
  try {
    const answer = await fetch(followed ? location.href : '/problems', {
      headers: { accept: 'text/html', 'x-follows': 'yes' },
      signal: AbortSignal.timeout(silentMs),
    })
    // The session has ended.
    if (answer.redirected) location.reload()
    // With the header, there are too many readers.
    if (answer.status === 503)
      return answer.headers.has('retry-after') ? 'reconnecting' : 'waiting for the database'
    if (answer.ok) showPage(new DOMParser().parseFromString(await answer.text(), 'text/html'))
    return 'live'
  } catch {
    return 'reconnecting'
  }
}

/** Again and again while somebody looks, less often where it takes longer. */
async function follow() {
  const beganMs = performance.now()
  if (isAsking || beganMs < nextMs || document.visibilityState !== 'visible') return
  isAsking = true
  say(await askAgain())
  isAsking = false
  const tookMs = performance.now() - beganMs
  const isLive = connection.dataset.connection === 'live'
  const restMs = followed ? (isLive ? 20 * tookMs : 0) : longestRestMs
  nextMs = performance.now() + Math.min(longestRestMs, Math.max(followEveryMs, restMs))
}

/** Text that somebody has selected stays until they let it go. */
function showPage(fresh) {
  showTimes(fresh)
  const selection = getSelection()
  for (const part of ['[data-badge]', '[data-follows]', '[data-as-of]']) {
    const [place, now] = [document.querySelector(part), fresh.querySelector(part)]
    if (!place || !now || (!followed && part !== '[data-badge]')) continue
    if (selection.isCollapsed || !selection.containsNode(place, true)) become(place, now)
  }
}

// Times come as UTC. The tooltip of each says both; a button at the foot puts the reader's own in place of UTC.
const ownZone = Intl.DateTimeFormat().resolvedOptions().timeZone
const zoneButton = document.querySelector('[data-own-zone]')
let isOwnZone = false

const two = (number) => String(number).padStart(2, '0')
const dayAndMonth = (at) => `${at.getDate()} ${at.toLocaleString('en', { month: 'short' })}`
const minuteOf = (at) => `${two(at.getHours())}:${two(at.getMinutes())}`
const secondOf = (at) => `${minuteOf(at)}:${two(at.getSeconds())}`
const nameOfZone = (at) =>
  new Intl.DateTimeFormat('en', { timeZoneName: 'short' })
    .formatToParts(at)
    .find(({ type }) => type === 'timeZoneName').value
/** The forms of html.ts, by the clock of the reader. */
const ownForms = {
  stamp: (at) =>
    `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${secondOf(at)} ${nameOfZone(at)}`,
  second: (at) => (at.toDateString() === new Date().toDateString() ? secondOf(at) : ownForms.moment(at)),
  minute: minuteOf,
  moment: (at) => `${dayAndMonth(at)} ${minuteOf(at)}`,
  year: (at) => `${dayAndMonth(at)} ${at.getFullYear()} ${minuteOf(at)}`,
  // A day of UTC begins at another time of the reader’s day.
  day: (at) => (minuteOf(at) === '00:00' ? dayAndMonth(at) : ownForms.moment(at)),
}

function showTimes(place) {
  for (const one of place.querySelectorAll('time[datetime], [data-at]')) {
    const at = new Date(one.dateTime ?? one.dataset.at)
    if (one.dateTime)
      one.title = `${at.toISOString().slice(0, 19).replace('T', ' ')} UTC · ${ownForms.stamp(at)}`
    const { form } = one.dataset
    if (!form || !isOwnZone) continue
    one.dataset.utc = one.textContent
    one.textContent = ownForms[form](at)
  }
  for (const one of place.querySelectorAll('[data-zone]')) one.textContent = isOwnZone ? ownZone : 'UTC'
  if (isOwnZone) return
  for (const one of place.querySelectorAll('[data-utc]')) {
    one.textContent = one.dataset.utc
    delete one.dataset.utc
  }
}

function useOwnZone(isOwn) {
  isOwnZone = isOwn
  zoneButton.textContent = isOwn ? `Times: ${ownZone}` : 'Times: UTC'
  zoneButton.setAttribute('aria-pressed', String(isOwn))
  showTimes(document)
}

if (zoneButton) {
  let isOwn = false
  try {
    isOwn = localStorage.getItem('times') === 'own'
  } catch {
    // A browser that keeps nothing.
  }
  zoneButton.hidden = false
  zoneButton.addEventListener('click', () => {
    useOwnZone(!isOwnZone)
    try {
      localStorage.setItem('times', isOwnZone ? 'own' : 'utc')
    } catch {
      // It holds for this page.
    }
  })
  useOwnZone(isOwn)
}

// Ages go on by the clock of the worker, whether or not anything comes.
const aheadMs = new Date(document.body.dataset.now) - Date.now()
const units = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
]

function inWords(ms) {
  const [unit, size] = units.find((one) => Math.abs(ms) >= one[1]) ?? []
  if (!unit) return ms < 0 ? 'any moment' : 'just now'
  const amount = Math.floor(Math.abs(ms) / size)
  const words = `${amount} ${unit}${amount === 1 ? '' : 's'}`
  return ms < 0 ? `in ${words}` : `${words} ago`
}

function inShort(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1_000))
  const [minutes, hours] = [Math.floor(seconds / 60), Math.floor(seconds / 3_600)]
  if (minutes < 1) return `${seconds} s`
  if (hours < 1)
    return minutes >= 10 || seconds % 60 === 0 ? `${minutes} min` : `${minutes} min ${seconds % 60} s`
  if (hours < 24) return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} min`
  return hours < 48 ? `${hours} h` : `${Math.floor(hours / 24)} days`
}

const wordsOf = { words: inWords, span: inShort, next: (ms) => (ms < 0 ? inWords(ms) : 'now') }

setInterval(() => {
  const selection = getSelection()
  for (const one of document.querySelectorAll('[data-age]')) {
    const ms = Date.now() + aheadMs - new Date(one.dateTime)
    const words = wordsOf[one.dataset.age](ms)
    const isHeld = !selection.isCollapsed && selection.containsNode(one, true)
    if (one.textContent !== words && !isHeld) one.textContent = words
  }
}, 1_000)

// A page of a worker that waits loads itself again.
if (document.querySelector('[data-badge]')) {
  say('live')
  setInterval(follow, 500)
  document.addEventListener('visibilitychange', () => {
    nextMs = 0
    follow()
  })
}

// Keys: off in fields, and off altogether for who wants that.
const keys = document.querySelector('#keys')
const useKeys = document.querySelector('[data-use-keys]')
const openKeys = document.querySelector('[data-open-keys]')
let isGoing = false

function goTo(letter) {
  for (const link of document.querySelectorAll('.nav a'))
    if (link.textContent.trim().toLowerCase().startsWith(letter)) return link.click()
}

/** To the link of the next row, or of the one before; Enter opens it. */
function goToRow(by) {
  const links = [...document.querySelectorAll('main tbody tr')].flatMap((row) => row.querySelector('a') ?? [])
  const at = links.findIndex((link) => link.closest('tr').contains(document.activeElement))
  links[Math.min(Math.max(at + by, 0), links.length - 1)]?.focus()
}

function press(event) {
  const { key, target, ctrlKey, metaKey, altKey } = event
  if (!useKeys.checked || ctrlKey || metaKey || altKey || keys.open) return
  if (target.closest('input, select, textarea, [contenteditable]')) return
  if (isGoing) goTo(key.toLowerCase())
  else if (key === '/') document.querySelector('#q').focus()
  else if (key === '?') keys.showModal()
  else if (key === 'j' || key === 'k') goToRow(key === 'j' ? 1 : -1)
  isGoing = key === 'g' && !isGoing
  if (key === '/' || key === '?') event.preventDefault()
}

if (keys && useKeys && openKeys) {
  try {
    useKeys.checked = localStorage.getItem('keys') !== 'off'
    useKeys.addEventListener('change', () => localStorage.setItem('keys', useKeys.checked ? 'on' : 'off'))
  } catch {
    // A browser that keeps nothing.
  }
  openKeys.hidden = false
  openKeys.addEventListener('click', () => keys.showModal())
  document.addEventListener('keydown', press)
}

// Copying: an address, or the text of another element. Only over HTTPS and on this machine a browser lets a page write to the clipboard;
// elsewhere it still does what a person would: select and copy.
async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text)
  const field = document.createElement('textarea')
  field.value = text
  document.body.append(field)
  field.select()
  document.execCommand('copy')
  field.remove()
}

for (const button of document.querySelectorAll(shownByScript)) {
  const words = button.textContent
  button.hidden = false
  button.addEventListener('click', async () => {
    const { copy: address, copyFrom } = button.dataset
    const text = copyFrom ? document.getElementById(copyFrom).textContent : new URL(address, location).href
    button.textContent = await copy(text).then(
      () => 'Copied',
      () => 'Not copied',
    )
    setTimeout(() => (button.textContent = words), 2_000)
  })
}

// Filtering rows by what stands in them, without asking the worker again.
for (const place of document.querySelectorAll('[data-filtered]')) {
  const form = place.querySelector('form')
  const [field, nothing] = [form.querySelector('input'), place.querySelector('[data-filtered-out]')]
  for (const button of form.querySelectorAll('[data-no-script]')) button.hidden = true
  form.addEventListener('submit', (event) => event.preventDefault())
  field.addEventListener('input', () => {
    const wanted = field.value.trim().toLowerCase()
    const rows = [...place.querySelectorAll('tbody tr')]
    for (const row of rows)
      row.hidden = ![...row.cells]
        .slice(0, 2)
        .some(({ textContent }) => textContent.toLowerCase().includes(wanted))
    nothing.hidden = rows.some((row) => !row.hidden)
    for (const part of place.querySelectorAll('details:has(table)'))
      part.open = wanted !== '' && [...part.querySelectorAll('tbody tr')].some((row) => !row.hidden)
  })
}
