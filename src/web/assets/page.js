// The script of the pages: it shows what the worker sends, says whether it is in touch, knows some keys, copies, and filters what is there.
// Pages are complete without it.

const connection = document.querySelector('[data-connection]')
const followed = document.querySelector('[data-follows]')
const followEveryMs = 3_000
const longestRestMs = 20_000
const silentMs = 10_000
let source = null
let isAsking = false
let nextMs = 0

/** A page that follows nothing calls itself neither live nor cut off. */
function say(state) {
  if (connection.dataset.connection === state) return
  connection.dataset.connection = state
  // What was missed meanwhile is asked for at once.
  if (!isAsking) nextMs = 0
  if (!followed) return
  connection.textContent = state
  connection.classList.toggle('off', state !== 'live')
  document.body.classList.toggle('old', state !== 'live')
}

/** What came and is not shown yet. */
const waiting = new Map()

function show({ cells, isWhole }) {
  if (isWhole)
    for (const place of document.querySelectorAll('[data-live]'))
      if (!(place.dataset.live in cells)) waiting.set(place.dataset.live, '')
  for (const [key, markup] of Object.entries(cells)) waiting.set(key, markup)
  showWaiting()
  heardMs = performance.now()
  say('live')
  follow()
}

/** Text that somebody has selected stays until they let it go. */
function showWaiting() {
  const selection = getSelection()
  for (const [key, markup] of waiting) {
    const places = [...document.querySelectorAll(`[data-live="${CSS.escape(key)}"]`)]
    if (!selection.isCollapsed && places.some((place) => selection.containsNode(place, true))) continue
    waiting.delete(key)
    for (const place of places) {
      const fresh = document.createElement('template')
      fresh.innerHTML = markup
      become(place, fresh.content)
    }
  }
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
    if (node.nodeType !== Node.ELEMENT_NODE) {
      if (known.nodeValue !== node.nodeValue) known.nodeValue = node.nodeValue
      continue
    }
    const key = known.dataset?.live
    for (const { name } of [...known.attributes])
      if (name !== 'open' && !node.hasAttribute(name)) known.removeAttribute(name)
    for (const { name, value } of node.attributes)
      if (known.getAttribute(name) !== value && !(name === 'hidden' && known.matches(shownByScript)))
        known.setAttribute(name, value)
    // Its content comes by itself, and may be newer.
    if (key !== undefined && key === node.dataset.live) continue
    become(known, node)
  }
  while (at) at = removed(at)
}

function removed(node) {
  const next = node.nextSibling
  node.remove()
  return next
}

document.addEventListener('selectionchange', () => {
  if (waiting.size > 0 && getSelection().isCollapsed) showWaiting()
})

// What is not sent: the page asks for itself again while it hears from the worker, less often where that takes longer.
async function follow() {
  const beganMs = performance.now()
  const selection = getSelection()
  if (!followed || isAsking || beganMs < nextMs) return
  if (!selection.isCollapsed && selection.containsNode(followed, true)) return
  isAsking = true
  try {
    const answer = await fetch(location.href, {
      headers: { accept: 'text/html', 'x-follows': 'yes' },
      signal: AbortSignal.timeout(silentMs),
    })
    // The session has ended.
    if (answer.redirected) location.reload()
    if (answer.ok) showPage(new DOMParser().parseFromString(await answer.text(), 'text/html'))
  } catch {
    // The events say so.
  }
  isAsking = false
  const tookMs = performance.now() - beganMs
  nextMs = performance.now() + Math.min(longestRestMs, Math.max(followEveryMs, 20 * tookMs))
}

function showPage(fresh) {
  for (const part of ['[data-follows]', '[data-as-of]']) {
    const [place, now] = [document.querySelector(part), fresh.querySelector(part)]
    if (place && now) become(place, now)
  }
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

let heardMs = performance.now()

setInterval(() => {
  const selection = getSelection()
  for (const one of document.querySelectorAll('[data-age]')) {
    const ms = Date.now() + aheadMs - new Date(one.dateTime)
    const words = wordsOf[one.dataset.age](ms)
    const isHeld = !selection.isCollapsed && selection.containsNode(one, true)
    if (one.textContent !== words && !isHeld) one.textContent = words
  }
  if (!source || performance.now() - heardMs < silentMs) return
  // A worker that hangs closes no connection.
  if (connection.dataset.connection !== 'waiting for the database') say('reconnecting')
  listen()
}, 1_000)

function listen() {
  source?.close()
  source = null
  heardMs = performance.now()
  nextMs = 0
  // Nothing on this page follows what happens.
  if (!document.querySelector('[data-live]') || document.visibilityState !== 'visible') return
  source = new EventSource('/events')
  source.addEventListener('update', ({ data }) => show(JSON.parse(data)))
  source.addEventListener('away', () => {
    heardMs = performance.now()
    say('waiting for the database')
  })
  source.addEventListener('error', () => {
    say('reconnecting')
    // Refused: the browser does not come back by itself.
    if (source.readyState !== EventSource.CLOSED) return
    follow()
    setTimeout(listen, 5_000)
  })
}

// A browser keeps few connections to one place; pages that nobody sees leave them to others.
document.addEventListener('visibilitychange', listen)
listen()

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

for (const button of document.querySelectorAll('[data-copy], [data-copy-from]')) {
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
