// The script of the pages: it shows what the worker sends, says whether it is in touch, knows some keys, copies, and filters what is there.
// Pages are complete without it.

const connection = document.querySelector('[data-connection]')
let source = null

function say(state) {
  if (connection.textContent === state) return
  connection.textContent = state
  connection.dataset.connection = state
  connection.classList.toggle('off', state !== 'live')
}

/** What came and is not shown yet. */
const waiting = new Map()

function show({ cells, isWhole }) {
  if (isWhole)
    for (const place of document.querySelectorAll('[data-live]'))
      if (!(place.dataset.live in cells)) waiting.set(place.dataset.live, '')
  for (const [key, markup] of Object.entries(cells)) waiting.set(key, markup)
  showWaiting()
  say('live')
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
    for (const { name } of [...known.attributes])
      if (name !== 'open' && !node.hasAttribute(name)) known.removeAttribute(name)
    for (const { name, value } of node.attributes)
      if (known.getAttribute(name) !== value) known.setAttribute(name, value)
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

function listen() {
  source?.close()
  // Nothing on this page follows what happens.
  if (!document.querySelector('[data-live]') || document.visibilityState !== 'visible') return
  source = new EventSource('/events')
  source.addEventListener('update', ({ data }) => show(JSON.parse(data)))
  source.addEventListener('away', () => say('waiting for the database'))
  source.addEventListener('error', () => {
    say('reconnecting')
    // Refused: the browser does not come back by itself.
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 5_000)
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
