import Metadata
import ObjectStorage

/// The state of a file that is open, or has bytes that the bucket does not have: its content, the object below it, and its name.
///
/// A pure value. Its owner, `ActiveFile`, keeps it in a mutex, changes it by the events below, and carries out
/// what follows: staged bytes, rows of the journal, requests. It does not know what a draft, an object or a removal is, so that
/// tests can try every order of events with numbers in their place.
/// A crash loses the value. The next process restores the file from the journal: as `survivor`, or with the draft that a program
/// has open.
struct FileLife<Draft, Object, Removal> {
    /// The content that programs see.
    enum Content {
        /// The bytes of the object below; none where there is no object.
        case stored
        /// The same: a first write has made a draft, and nothing is changed in it yet.
        case opened(Draft)
        /// A draft that programs have changed. `behind` is the acknowledged draft from before, to which a crash goes back.
        case dirty(Draft, behind: Draft?)
        /// An acknowledged draft (durable=local). It is on this disk and bound for the bucket, and stays as it is.
        case acknowledged(Draft)
    }

    /// The version in the bucket that has the bytes which are not in the draft.
    enum Base {
        case none
        case own(Object)
        /// Another file's object, which the draft's commit copies.
        case copied(Object)

        init(_ object: Object?, isCopy: Bool = false) {
            self = object.map { isCopy ? .copied($0) : .own($0) } ?? .none
        }
    }

    /// Whether the file has a name.
    enum Link {
        case named
        /// unlink(2) or rename(2) has taken its name; handles may still use it. The removal is that of its object, whose bytes
        /// the handles need until the last of them is closed.
        case orphan(Removal?)
        /// Another host has replaced its object: the name has this inode number now, and the handles of this file keep the
        /// version that they opened, as after a rename(2) over it.
        case superseded(by: InodeNumber)
        /// Another host's version has the name, and the bytes written here are in a conflict file or kept for "pailfs recover".
        /// The handles have nothing to read: the object below the draft is neither what they wrote nor what is there now.
        case lostConflict(successor: InodeNumber?)
    }

    private(set) var content: Content
    private(set) var base: Base
    private(set) var link: Link
    /// The condition of the draft's next PUT.
    private(set) var condition: WriteCondition?
    /// Counts the changes of `base` by this mount, which every handle follows.
    private(set) var epoch = 0
    /// Whether the newest version is not in the metadata cache yet, because that could not be written.
    var isUnrecorded = false
}

// MARK: Queries

extension FileLife {
    var draft: Draft? {
        switch content {
        case .stored: nil
        case .opened(let draft), .dirty(let draft, _), .acknowledged(let draft): draft
        }
    }

    /// The acknowledged draft from before the changes.
    var behind: Draft? { if case .dirty(_, let behind) = content { behind } else { nil } }

    /// The draft that a crash goes back to.
    var survivor: Draft? { if case .acknowledged(let draft) = content { draft } else { behind } }

    /// Content or attributes differ from the object.
    var isDirty: Bool {
        switch content {
        case .stored, .opened: false
        case .dirty, .acknowledged: true
        }
    }

    var isAcknowledged: Bool { if case .acknowledged = content { true } else { false } }

    /// The object below; nil while there is none in the bucket.
    var object: Object? {
        switch base {
        case .none: nil
        case .own(let object), .copied(let object): object
        }
    }

    var isCopy: Bool { if case .copied = base { true } else { false } }

    /// Whether a call of this mount has taken its name.
    var isUnlinked: Bool { if case .orphan = link { true } else { false } }

    var removal: Removal? { if case .orphan(let removal) = link { removal } else { nil } }

    var hasLostConflict: Bool { if case .lostConflict = link { true } else { false } }

    /// The inode number under which its name has another host's object.
    var successor: InodeNumber? {
        switch link {
        case .named, .orphan: nil
        case .superseded(let successor): successor
        case .lostConflict(let successor): successor
        }
    }

    /// Whether no name leads to the file any more.
    var isNameless: Bool { if case .named = link { false } else { true } }

    /// Whether the metadata cache has the whole state of the file.
    var isSettled: Bool {
        if case (.stored, .named, false) = (content, link, isUnrecorded) { true } else { false }
    }

    /// The object at its key that the next commit replaces; a removal of the name deletes it. Where the entry is pending, only
    /// this shows the object: the file was renamed over it, or acknowledged by an earlier process.
    var replacedObject: ETag? { if case .match(let etag) = condition { etag } else { nil } }

    /// The invariant that is broken; nil if none is. Checked after every event while assertions are on.
    var fault: String? {
        switch (content, base, link) {
        case (.opened, .copied, .named): "a draft that copies another object counts as unchanged"
        case (.stored, .copied, .named), (.stored, .copied, .superseded):
            "the stored content rests on another file's object"
        case (.acknowledged, .copied, _): "acknowledged, and not on this disk"
        case (_, .own, .lostConflict), (_, .copied, .lostConflict): "a file that lost a conflict rests on an object"
        case (.opened, _, .lostConflict), (.dirty, _, .lostConflict), (.acknowledged, _, .lostConflict):
            "a file that lost a conflict has a draft"
        case (.stored, _, _) where condition != nil: "a commit is awaited of what is stored"
        default: nil
        }
    }
}

// The events follow. An event that cannot happen in a state changes nothing there; `assert` names those whose caller would have
// broken acknowledged bytes. The caller disposes of a draft or a removal that an event returns.

// MARK: How a life begins

extension FileLife {
    /// An object that a program opens, or an entry without one.
    init(opening object: Object?) {
        self.init(content: .stored, base: Base(object), link: .named)
    }

    /// A file that a program has made: nothing of it is in the bucket, and nothing is acknowledged.
    init(creating draft: Draft) {
        self.init(content: .dirty(draft, behind: nil), base: .none, link: .named, condition: .absent)
    }

    /// A file that an earlier process acknowledged, restored from its row in the journal.
    init(restoring draft: Draft, over object: Object?, condition: WriteCondition?) {
        self.init(
            content: .acknowledged(draft), base: Base(object), link: .named, condition: condition)
    }

    /// A file without a name that a program has open: that of an earlier process, or one whose last handle had been closed.
    init(orphan draft: Draft?, over base: Base, removal: Removal? = nil) {
        self.init(
            content: draft.map { .dirty($0, behind: nil) } ?? .stored, base: base, link: .orphan(removal))
    }

    /// Continues with the draft of an earlier process, whose file a program has open. An acknowledged draft goes behind it.
    mutating func goOn(with draft: Draft, copying source: Object?, condition: WriteCondition?) {
        content = .dirty(draft, behind: survivor)
        if let source { base = .copied(source) }
        self.condition = condition
    }
}

// MARK: What programs do

extension FileLife {
    /// A first write has made a draft. Two may do so at once: returns the draft that counts.
    mutating func begin(_ draft: Draft, condition: WriteCondition) -> Draft {
        if let winner = self.draft { return winner }
        assert(!hasLostConflict, "a file that lost a conflict gets a draft")
        (content, self.condition) = (.opened(draft), condition)
        return draft
    }

    /// The draft's bytes have changed.
    mutating func change() {
        switch content {
        case .opened(let draft): content = .dirty(draft, behind: nil)
        case .dirty: break
        case .stored: assertionFailure("there is no draft to change")
        case .acknowledged: assertionFailure("acknowledged bytes are changed")
        }
    }

    /// The draft becomes a copy of another file's object, under the draft's own bytes.
    mutating func copy(from object: Object) {
        change()
        base = .copied(object)
        epoch += 1
    }

    /// Drops a draft in which nothing was changed, and returns it to be discarded.
    mutating func dropUnchanged() -> Draft? {
        guard case .opened(let draft) = content, !isUnlinked else { return nil }
        (content, condition) = (.stored, nil)
        return draft
    }

    /// The draft is acknowledged. The draft behind it is given up.
    mutating func acknowledge() {
        guard case .dirty(let draft, _) = content else { return }
        content = .acknowledged(draft)
    }

    /// A copy takes the place of an acknowledged draft that programs write to again.
    mutating func rewrite(in draft: Draft) {
        guard case .acknowledged(let acknowledged) = content else { return }
        content = .dirty(draft, behind: acknowledged)
    }

    /// unlink(2) or rename(2) has taken the name. A file that lost a conflict stays so, unless there is a removal.
    mutating func unlink(_ removal: Removal? = nil) {
        switch link {
        case .named: link = .orphan(removal)
        case .orphan(let old): link = .orphan(removal ?? old)
        case .superseded, .lostConflict: if let removal { link = .orphan(removal) }
        }
    }

    /// After a crash the file must not come back any more: its rows have ended, or end with this. Returns the draft behind.
    mutating func forgetAcknowledged() -> Draft? {
        let behind = takeBehind()
        if case .acknowledged(let draft) = content { content = .dirty(draft, behind: nil) }
        return behind
    }

    /// Returns the draft behind, to be given up: a newer object has taken its place.
    mutating func takeBehind() -> Draft? {
        guard case .dirty(let draft, let behind) = content else { return nil }
        content = .dirty(draft, behind: nil)
        return behind
    }
}

// MARK: What becomes of the object

extension FileLife {
    /// The draft is committed: its object is the file's content.
    mutating func land(as object: Object) {
        (content, base, condition) = (.stored, .own(object), nil)
        epoch += 1
    }

    /// A commit that continues, or has failed, has made an object, which has the bytes that are not in the draft.
    mutating func rest(on object: Object) {
        base = .own(object)
        epoch += 1
    }

    /// This mount gave the object another version or another key, which every handle reads from now on.
    mutating func rebase(on object: Object?) {
        guard !hasLostConflict else { return }
        base = Base(object)
        epoch += 1
    }

    /// The object has the same bytes under a version that was looked up. Handles follow where they had none.
    mutating func renew(_ object: Object?) {
        if self.object == nil { epoch += 1 }
        base = Base(object)
    }

    /// Changes the condition of the draft's next PUT.
    mutating func require(_ condition: WriteCondition?) {
        if draft != nil { self.condition = condition }
    }

    /// Another host's version has the name, and the draft is in a conflict file or kept for recovery. Returns the draft behind.
    mutating func loseConflict() -> Draft? {
        let behind = behind
        (content, base, condition) = (.stored, .none, nil)
        link = .lostConflict(successor: nil)
        return behind
    }

    /// The name has another host's object, under another inode number.
    mutating func supersede(by successor: InodeNumber) {
        switch link {
        case .named, .superseded: link = .superseded(by: successor)
        case .lostConflict: link = .lostConflict(successor: successor)
        case .orphan: break
        }
    }

    /// Takes the removal of the object, to carry it out or to replace the object.
    mutating func takeRemoval() -> Removal? {
        guard case .orphan(let removal) = link else { return nil }
        link = .orphan(nil)
        return removal
    }

    /// The removal was not carried out, and waits for the last handle again.
    mutating func giveBack(_ removal: Removal) {
        if isUnlinked { link = .orphan(removal) }
    }
}

extension FileLife: Sendable where Draft: Sendable, Object: Sendable, Removal: Sendable {}
extension FileLife.Content: Sendable where Draft: Sendable, Object: Sendable, Removal: Sendable {}
extension FileLife.Base: Sendable where Draft: Sendable, Object: Sendable, Removal: Sendable {}
extension FileLife.Link: Sendable where Draft: Sendable, Object: Sendable, Removal: Sendable {}
