import FileSystem

/// What several programs did at the same time, and what each of them saw.
struct History {
    /// A step, and between which ticks it happened.
    struct Event {
        let step: Step
        let began: Int
        let ended: Int
        let answer: Step.Answer
    }

    /// Each program's, in its order.
    var programs: [[Event]]

    /// Whether the steps can be put in an order that keeps each step before all that began after its end, and in which a local
    /// disk answers the same and ends as `tree` (linearizability: Herlihy and Wing, 1990).
    func isExplained(from start: SequentialTree, endingAs tree: [String: ReferenceTree.Node]) -> Bool {
        var search = Search(programs: programs, tree: tree)
        return search.isExplained(start, Array(repeating: 0, count: programs.count))
    }

    private struct Search {
        let programs: [[Event]]
        let tree: [String: ReferenceTree.Node]
        /// States from which there is no order.
        private var inVain: Set<State> = []

        private struct State: Hashable {
            let tree: SequentialTree
            let done: [Int]
        }

        init(programs: [[Event]], tree: [String: ReferenceTree.Node]) { (self.programs, self.tree) = (programs, tree) }

        mutating func isExplained(_ now: SequentialTree, _ done: [Int]) -> Bool {
            let next = programs.indices.filter { done[$0] < programs[$0].count }
            if next.isEmpty { return now.tree() == tree }
            let state = State(tree: now, done: done)
            if inVain.contains(state) { return false }
            for program in next {
                let event = programs[program][done[program]]
                if next.contains(where: { programs[$0][done[$0]].ended < event.began }) { continue }
                var then = now
                guard Self.agree(&then, event, program) else { continue }
                var more = done
                more[program] += 1
                if isExplained(then, more) { return true }
            }
            inVain.insert(state)
            return false
        }

        private static func agree(_ tree: inout SequentialTree, _ event: Event, _ program: Int) -> Bool {
            // The kernel walks the path again; the program does not see this.
            if event.answer == .failed(.stale), event.step.isByName { return true }
            // The program was killed before its turn came.
            if event.answer == .failed(.interrupted) { return true }
            let answer = tree.perform(event.step, of: program)
            if case .create = event.step, event.answer == .failed(.isDirectory) { return answer == .failed(.exists) }
            return answer == event.answer
        }
    }
}

extension Step {
    /// Whether the kernel repeats it after ESTALE.
    var isByName: Bool {
        switch self {
        case .enter, .look, .open, .create, .unlink, .makeDirectory, .removeDirectory, .rename: true
        case .write, .read, .resize, .close: false
        }
    }
}

extension History: CustomStringConvertible {
    var description: String {
        let lines = programs.enumerated().flatMap { program, events in
            events.map { event in
                (event.began, "\(event.began)-\(event.ended) program \(program): \(event.step): \(event.answer)")
            }
        }
        return lines.sorted { $0.0 < $1.0 }.map(\.1).joined(separator: "\n")
    }
}
