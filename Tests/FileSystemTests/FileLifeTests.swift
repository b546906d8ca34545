import Metadata
import ObjectStorage
import Testing

@testable import FileSystem

/// The life of a file as a value, with numbers in the place of drafts, objects and removals: every state that any order of events
/// leads to is visited.
@Suite struct FileLifeTests {
    typealias Life = FileLife<Int, Int, Int>

    enum Event: CaseIterable {
        case begin, change, copy, dropUnchanged, acknowledge, rewrite, goOn, unlink, unlinkNeedingTheObject
        case forgetAcknowledged, takeBehind, land, rest, rebase, renew, requireAbsent, requireMatch, loseConflict
        case supersede, takeRemoval, giveBack, recordFailed, recorded
    }

    /// What the event gives back; nil where no caller lets it come in that state.
    private static func happen(_ event: Event, to life: inout Life) -> [Int]? {
        // Drafts are told apart by their numbers; so many are alive at most.
        let fresh = [1, 2, 3].first { (number: Int) in number != life.draft && number != life.behind } ?? 0
        let otherObject = (life.object ?? 0) % 2 + 1
        let isNamed = !life.isNameless
        switch event {
        case .begin:
            guard !life.hasLostConflict, life.successor == nil else { return nil }
            _ = life.begin(fresh, condition: .absent)
        case .change:
            guard life.draft != nil, !life.isAcknowledged else { return nil }
            life.change()
        case .copy:
            guard life.draft != nil, !life.isAcknowledged, isNamed, life.object == nil else { return nil }
            life.copy(from: otherObject)
        case .dropUnchanged: return life.dropUnchanged().map { [$0] } ?? []
        case .acknowledge:
            guard isNamed, !life.isCopy else { return nil }
            let behind = life.behind
            life.acknowledge()
            return behind.map { [$0] } ?? []
        case .rewrite: life.rewrite(in: fresh)
        case .goOn:
            guard isNamed, life.behind == nil, !life.isDirty || life.isAcknowledged else { return nil }
            life.goOn(with: fresh, copying: nil, condition: life.condition ?? .absent)
        case .unlink: life.unlink()
        case .unlinkNeedingTheObject:
            guard life.object != nil, isNamed else { return nil }
            life.unlink(7)
        case .forgetAcknowledged:
            guard life.isUnlinked else { return nil }
            return life.forgetAcknowledged().map { [$0] } ?? []
        case .takeBehind: return life.takeBehind().map { [$0] } ?? []
        case .land:
            guard life.isDirty, isNamed, life.behind == nil else { return nil }
            life.land(as: otherObject)
        case .rest:
            guard life.draft != nil else { return nil }
            life.rest(on: otherObject)
        case .rebase:
            guard !life.isCopy else { return nil }
            life.rebase(on: otherObject)
        case .renew:
            guard life.isSettled else { return nil }
            life.renew(life.object ?? otherObject)
        case .requireAbsent: life.require(.absent)
        case .requireMatch: life.require(.match(ETag("e")))
        case .loseConflict:
            guard life.isDirty, isNamed else { return nil }
            let lost = [life.draft, life.behind].compactMap(\.self)
            _ = life.loseConflict()
            return lost
        case .supersede: life.supersede(by: InodeNumber(rawValue: 9))
        case .takeRemoval: return life.takeRemoval().map { [$0] } ?? []
        case .giveBack: life.giveBack(7)
        case .recordFailed: life.isUnrecorded = true
        case .recorded: life.isUnrecorded = false
        }
        return []
    }

    /// What no event may do, whatever the state; nil when it did nothing of that.
    private static func broken(_ event: Event, _ before: Life, _ after: Life, gaveBack: [Int]) -> String? {
        if let fault = after.fault { return fault }
        if before.isNameless && !after.isNameless { return "a name came back" }
        if before.isUnlinked && !after.isUnlinked { return "a removal was undone" }
        // What programs were told is safe goes only where something says so.
        let isGone = before.survivor != nil && after.survivor != before.survivor && after.draft != before.survivor
        if isGone, event != .land, event != .acknowledge, gaveBack.isEmpty { return "an acknowledged draft was lost" }
        if let draft = before.draft, after.draft != draft, after.behind != draft, event != .land, event != .goOn,
            !gaveBack.contains(draft)
        {
            return "a draft was lost"
        }
        // Handles follow what this mount did, and see nothing else change under them.
        let isOwnChange = before.object != after.object && !after.hasLostConflict && event != .dropUnchanged
        if isOwnChange, after.epoch == before.epoch { return "the object below changed and no handle hears of it" }
        if before.isAcknowledged, after.isDirty, !after.isAcknowledged, after.draft == before.draft, !after.isUnlinked {
            return "acknowledged bytes count as changed"
        }
        return nil
    }

    private static func name(_ life: Life) -> String {
        "\(life.content) \(life.base) \(life.link) \(String(describing: life.condition)) \(life.isUnrecorded)"
    }

    private static let beginnings = [
        Life(opening: nil), Life(opening: 1), Life(creating: 1), Life(restoring: 1, over: 1, condition: nil),
        Life(restoring: 1, over: nil, condition: .absent), Life(orphan: 1, over: .own(1), removal: 7),
        Life(orphan: nil, over: .own(1)), Life(orphan: 1, over: .copied(1)),
    ]

    @Test func noOrderOfEventsLosesADraftOrBringsANameBack() {
        var seen: Set<String> = []
        var waiting = Self.beginnings
        var (transitions, happened) = (0, Set<Event>())
        while let life = waiting.popLast() {
            guard seen.insert(Self.name(life)).inserted else { continue }
            for event in Event.allCases {
                var next = life
                guard let gaveBack = Self.happen(event, to: &next) else { continue }
                transitions += 1
                happened.insert(event)
                let broken = Self.broken(event, life, next, gaveBack: gaveBack)
                #expect(broken == nil, "\(event): \(Self.name(life)) -> \(Self.name(next))")
                waiting.append(next)
            }
        }
        #expect(happened.count == Event.allCases.count)
        #expect(seen.count > 500 && transitions > 5000, "\(seen.count) states, \(transitions) transitions")
    }

    /// The exploration is worth what its rules find.
    @Test func theRulesFindWhatIsWrong() {
        let acknowledged = Life(restoring: 1, over: nil, condition: .absent)
        func isFound(_ event: Event, _ before: Life, _ after: Life) -> Bool {
            Self.broken(event, before, after, gaveBack: []) != nil
        }
        #expect(isFound(.rewrite, acknowledged, Life(creating: 2)), "the copy forgets what it was made from")
        #expect(isFound(.unlink, Life(orphan: 1, over: .none), Life(creating: 1)), "a file without a name gets one")
        #expect(isFound(.change, acknowledged, Life(creating: 1)), "what is acknowledged is written to")
        #expect(isFound(.loseConflict, Life(creating: 1), Life(opening: 1)), "what was written is nowhere")
        #expect(isFound(.rebase, Life(opening: 1), Life(opening: 2)), "handles go on reading what was there")
        #expect(
            !isFound(
                .land, Life(creating: 1),
                {
                    var life = $0; life.land(as: 1); return life
                }(Life(creating: 1))))
    }

    @Test func aCrashGoesBackToWhatProgramsWereTold() {
        var life = Life(creating: 1)
        #expect(life.survivor == nil)
        life.acknowledge()
        #expect(life.survivor == 1)
        life.rewrite(in: 2)
        #expect(life.survivor == 1 && life.draft == 2)
        life.acknowledge()
        #expect(life.survivor == 2)
        life.unlink()
        _ = life.forgetAcknowledged()
        #expect(life.survivor == nil && life.draft == 2)
    }

    @Test func whoLostAConflictHearsOfItWhateverBecomesOfTheName() {
        var life = Life(creating: 1)
        _ = life.loseConflict()
        life.unlink()
        #expect(life.hasLostConflict)
        life.supersede(by: InodeNumber(rawValue: 3))
        #expect(life.hasLostConflict && life.successor == InodeNumber(rawValue: 3))
    }
}
