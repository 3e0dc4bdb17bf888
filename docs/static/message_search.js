// Above the results of a search: the section about the message of PyTorch that was searched for. MESSAGES is written
// into the page by docs/message_search.py; `find` in graders/learner/explain.py does the same in a terminal.
const asked = (new URLSearchParams(location.search).get("q") || "").toLowerCase().split(/\s+/).join(" ").trim();

function held(parts) {
    let place = 0, length = 0;
    for (const part of parts) {
        place = asked.indexOf(part, place);
        if (place < 0) return 0;
        place += part.length;
        length += part.length;
    }
    return length;
}

let found = null, longest = 0;
for (const message of MESSAGES) {
    const length = Math.max(...message.parts.map(held));
    if (length > longest) [found, longest] = [message, length];
}
const results = document.getElementById("search-results");
if (found && results) {
    const link = document.createElement("a");
    link.href = `messages.html#${encodeURIComponent(found.anchor)}`;
    link.textContent = found.title;
    const line = document.createElement("p");
    line.id = "message-found";
    line.append("What PyTorch says: ", link);
    results.before(line);
}
