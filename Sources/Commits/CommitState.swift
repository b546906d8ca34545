import Basics
import ObjectStorage
import Staging

/// The life of one dirty file on its way to an object: parts sent while it is still written, then the commit.
///
/// A value without I/O, clock or thread. Its owner, `FileCommit`, locks it, takes the actions it leaves in `actions` and
/// answers each with one event. A durable intent belongs before `createUpload` and before an attempt is remembered.
struct CommitState: Sendable {
    typealias Ticket = UInt64

    struct Run {
        var request: Request
        var queue: [PartTransfer] = []
        var failure: CommitError?
        /// How often it may still begin a new upload because the store lost one.
        var restarts = 2
    }

    let options: CommitOptions
    let capabilities: Capabilities
    let identity: String
    /// What the owner has to do now.
    var actions: [Action] = []

    private(set) var upload: Upload?
    private(set) var flights: [Ticket: Flight] = [:]
    /// Uploads to abort once none of their transfers is under way. A nil id: the upload is still being created.
    private(set) var retired: [Ticket: (key: ObjectKey, id: UploadID?)] = [:]
    private(set) var layout: PartLayout
    /// What the layout was made from.
    private(set) var layoutPlan: (partSize: Int64, size: Int64)
    private(set) var run: Run?
    private var creating: Ticket?
    private var aborting: Set<Ticket> = []
    private var lastTicket: Ticket = 0
    private(set) var isAbandoned = false

    // Sending behind the writer.
    private var writerPart = Int.max
    /// The key that the file was renamed to. A write that began before may still name the old one.
    private var movedTo: ObjectKey?
    private(set) var waiting: [PartTransfer] = []
    /// Parts that changed after they were sent: not sent again before the commit.
    private var rewritten: Set<Int> = []
    private var failures = 0
    private static let mostFailures = 3

    var attempts: CommitAttempts

    /// `identity` is random: the commit ids are made from it.
    init(identity: String, options: CommitOptions, capabilities: Capabilities, ancestors: [String] = []) {
        (self.identity, self.options, self.capabilities) = (identity, options, capabilities)
        attempts = CommitAttempts(ancestors: ancestors)
        layoutPlan = (options.partSize, 0)
        layout = PartLayout(partSize: options.partSize, size: 0, capabilities: capabilities)
    }

    var hasUpload: Bool { upload != nil || creating != nil }
    var isQuiet: Bool { flights.isEmpty && creating == nil && retired.isEmpty }

    // MARK: Writing

    /// The parts that a write of `range` leaves behind the writer.
    mutating func passed(by range: ByteRange) -> [Int] {
        guard !isAbandoned, run == nil, capabilities.mostParts > 1, failures < Self.mostFailures, !range.isEmpty else {
            return []
        }
        let first = layout.index(at: range.lowerBound)
        let parts = Array(first..<layout.index(at: range.upperBound))
        defer { writerPart = layout.index(at: range.upperBound - 1) }
        // A part that ended with the write before was not behind the writer yet.
        return writerPart < first ? [writerPart] + parts : parts
    }

    /// Takes those of `parts` that are wholly staged, to be sent now. False when an upload must be opened first.
    mutating func stream(_ parts: [Int], _ extents: ExtentMap, key: ObjectKey) -> Bool {
        let key = movedTo ?? key
        guard !isAbandoned, run == nil, extents.size > options.largestPut(for: capabilities) else { return true }
        if let upload, upload.key != key || upload.layout != layout { return true }
        for index in parts where index < capabilities.mostParts && !rewritten.contains(index) {
            let range = layout.range(of: index)
            guard range.upperBound <= layout.capacity, extents.isEntirely(.staged, in: range),
                upload?.sent.overlaps(range) != true, !waiting.contains(where: { $0.range.overlaps(range) }),
                !flights.values.contains(where: { $0.part.range.overlaps(range) })
            else { continue }
            waiting.append(PartTransfer(range: range, number: index + 1, isCopy: false))
        }
        launch()
        return waiting.isEmpty || upload != nil
    }

    /// Opens the upload that parts wait for.
    mutating func beginStreaming(_ key: ObjectKey, _ metadata: ObjectMetadata) {
        guard !isAbandoned, run == nil, upload == nil, creating == nil, !waiting.isEmpty else { return }
        open(movedTo ?? key, metadata)
    }

    mutating func forgetWriter() { writerPart = .max }

    /// The bytes of `range` may have changed.
    mutating func changed(_ range: ByteRange) {
        for part in upload?.sent.remove(overlapping: range) ?? [] { rewritten.insert(part.uploaded.number - 1) }
        for (ticket, flight) in flights where !flight.isStale && flight.part.range.overlaps(range) {
            rewritten.insert(flight.part.number - 1)
            flights[ticket]?.isStale = true
            actions.append(.cancel(ticket))
        }
        waiting.removeAll { $0.range.overlaps(range) }
        // Parts that are written anew after a truncation are sent behind the writer again.
        if range.upperBound == .max {
            let kept = layout.index(at: range.lowerBound)
            rewritten = rewritten.filter { $0 < kept }
        }
    }

    /// Gives the file up: nothing is left at the store.
    mutating func abandon() {
        isAbandoned = true
        retire()
    }

    /// Sends nothing more. Parts at the store stay there.
    mutating func stop() {
        isAbandoned = true
        waiting = []
        for (ticket, flight) in flights where !flight.isStale {
            flights[ticket]?.isStale = true
            actions.append(.cancel(ticket))
        }
    }

    // MARK: A commit with parts

    mutating func begin(_ request: Request) {
        run = Run(request: request)
        waiting = []
        failures = 0
        if request.size > layout.capacity, !request.needsUpload {
            layoutPlan = (options.partSize, request.size)
            layout = PartLayout(partSize: options.partSize, size: request.size, capabilities: capabilities)
        }
    }

    mutating func endRun() {
        run = nil
        for ticket in flights.keys { flights[ticket]?.isOfRun = false }
    }

    /// Starts what can be started. `baseSize` is the length of the version to copy parts from, 0 without one.
    mutating func proceed(baseSize: Int64) -> Step {
        guard !isAbandoned else { return .failed(.cancelled) }
        guard let run else { preconditionFailure("a step without a commit") }
        if let failure = run.failure { return .failed(failure) }
        if let upload, !fits(upload, run.request) {
            // Only this upload has some of the bytes: the commit fails rather than lose them.
            if run.request.needsUpload { return .failed(.uploadUnusable(run.request.key)) }
            retire()
        }
        if upload == nil, run.request.needsUpload { return .failed(.uploadLost(run.request.key)) }
        guard let upload else {
            if creating == nil { open(run.request.key, run.request.metadata) }
            return .wait
        }
        guard upload.id != nil else { return .wait }
        if run.queue.isEmpty {
            let plan = PartPlan(layout: layout, baseSize: baseSize, options: options, capabilities: capabilities)
            self.run?.queue = plan.missing(
                in: run.request.extents, sent: upload.sent, underWay: flights.values.map(\.part.range),
                named: capabilities.surplusParts ? [] : upload.begun.numbers)
        }
        launch()
        guard flights.isEmpty, let parts = upload.sent.complete(size: run.request.size) else { return .wait }
        return .complete(upload, parts)
    }

    /// Whether the upload can become the object. Other headers can be stored afterwards, which is cheaper than to send all parts
    /// again.
    private func fits(_ upload: Upload, _ request: Request) -> Bool {
        guard upload.key == request.key, upload.layout == layout else { return false }
        // Only this upload has some of the bytes. A completion of other parts and of unknown outcome lands before this one or
        // never.
        if request.needsUpload { return true }
        // Tags, class and ACL are given when an upload is begun.
        if upload.metadata.kept != request.metadata.kept { return false }
        if hasSurplus(size: request.size) { return false }
        guard upload.doubtedGeneration.map({ $0 == request.generation }) ?? true else { return false }
        if capabilities.headersAtCompletion
            || options.accepts(upload.metadata, for: request.metadata, at: capabilities)
        {
            return true
        }
        let hasParts = !upload.sent.isEmpty || flights.values.contains { $0.epoch == upload.epoch && !$0.isStale }
        return request.allowsOtherHeaders && hasParts && canStoreHeaders(size: request.size)
    }

    /// Whether an object there can get other headers without its bytes being sent again.
    func canStoreHeaders(size: Int64) -> Bool { canUpdateHeaders(size: size) || canCopyOntoItself(size: size) }

    /// Whether an upload that copies every part can do that.
    private func canCopyOntoItself(size: Int64) -> Bool {
        capabilities.canCopyParts(ofSize: size) && size > options.largestPut(for: capabilities)
    }

    /// Whether one request can do that.
    func canUpdateHeaders(size: Int64) -> Bool {
        switch capabilities.metadataUpdate {
        case .copy: size <= capabilities.largestCopy
        case .inPlace: true
        case .none: false
        }
    }

    /// The store does not have the upload any more. False when that happened too often.
    mutating func lostUpload() -> Bool {
        if let attempt = upload?.attempt { attempts.lose(attempt) }
        upload?.id = nil
        return rejectedParts()
    }

    /// The upload is of no use. False when that happened too often.
    mutating func rejectedParts() -> Bool {
        retire()
        guard let restarts = run?.restarts, restarts > 0 else { return false }
        run?.restarts = restarts - 1
        return true
    }

    // MARK: Uploads

    private mutating func open(_ key: ObjectKey, _ metadata: ObjectMetadata) {
        let epoch = newTicket()
        let attempt = newAttemptID()
        creating = epoch
        upload = Upload(epoch: epoch, key: key, metadata: metadata, attempt: attempt, layout: layout)
        actions.append(.createUpload(epoch, PutRequest(key, metadata: CommitAttempts.marked(metadata, attempt))))
    }

    /// The mtime that the upload was begun with does not count as close to the new one (`CommitOptions.mtimeDrift`).
    mutating func timeIsSet() { upload?.metadata.user["mtime"] = nil }

    mutating func moved(to key: ObjectKey) {
        movedTo = key
        if let upload, upload.key != key { retire() }
    }

    /// Gives the upload up; it is aborted as soon as none of its transfers is under way.
    mutating func retire() {
        guard let upload else { return }
        self.upload = nil
        waiting = []
        rewritten = []
        run?.queue = []
        for (ticket, flight) in flights where flight.epoch == upload.epoch && !flight.isStale {
            flights[ticket]?.isStale = true
            actions.append(.cancel(ticket))
        }
        // The upload neither exists nor is being created: the store has lost it.
        guard upload.id != nil || creating == upload.epoch else { return }
        retired[upload.epoch] = (upload.key, upload.id)
        abortRetired()
    }

    private mutating func abortRetired() {
        for (epoch, upload) in retired where !aborting.contains(epoch) {
            guard let id = upload.id, !flights.values.contains(where: { $0.epoch == epoch }) else { continue }
            aborting.insert(epoch)
            actions.append(.abort(epoch, upload.key, id))
        }
    }

    private mutating func launch() {
        guard let (epoch, key) = upload.map({ ($0.epoch, $0.key) }), let id = upload?.id, run?.failure == nil else {
            return
        }
        while flights.count < options.uploadsPerFile {
            let isOfRun = run != nil
            guard let part = isOfRun ? run?.queue.first : waiting.first else { return }
            // The store keeps what arrives last: two of one number must not race.
            if flights.values.contains(where: { $0.part.range.overlaps(part.range) }) { return }
            if isOfRun { run?.queue.removeFirst() } else { waiting.removeFirst() }
            let ticket = newTicket()
            flights[ticket] = Flight(epoch: epoch, part: part, isOfRun: isOfRun)
            upload?.begun.insert(part.number)
            actions.append(.transfer(ticket, key, id, part))
        }
    }

    // MARK: Events

    mutating func created(_ epoch: Ticket, _ result: Result<UploadID, CommitError>) {
        creating = nil
        switch result {
        case .success(let id):
            if upload?.epoch == epoch { upload?.id = id } else { retired[epoch]?.id = id }
        case .failure(let error):
            retired[epoch] = nil
            guard upload?.epoch == epoch else { break }
            upload = nil
            failed(error, isOfRun: true)
        }
        abortRetired()
        launch()
    }

    mutating func transferred(_ ticket: Ticket, _ result: Result<UploadedPart, CommitError>) {
        guard let flight = flights.removeValue(forKey: ticket) else { return }
        if !flight.isStale, upload?.epoch == flight.epoch {
            switch result {
            case .success(let part):
                upload?.sent.insert(SentParts.Part(range: flight.part.range, uploaded: part))
                failures = 0
            case .failure(.store(let error)) where error.kind == .noSuchUpload:
                if !lostUpload() { failed(.store(error), isOfRun: flight.isOfRun) }
            case .failure(let error): failed(error, isOfRun: flight.isOfRun)
            }
        }
        abortRetired()
        launch()
    }

    mutating func aborted(_ epoch: Ticket) {
        retired[epoch] = nil
        aborting.remove(epoch)
    }

    private mutating func failed(_ error: CommitError, isOfRun: Bool) {
        // A cancelled transfer shows nothing about the store.
        if error == .cancelled, run == nil { return }
        if run == nil {
            failures += 1
            if upload == nil || failures >= Self.mostFailures { waiting = [] }
        } else if isOfRun {
            if run?.failure == nil { run?.failure = error }
        }
    }

    // MARK: After a crash

    /// Resumes an upload of an earlier process. `parts` are its parts that are of use, `listed` the numbers of all parts that the
    /// store lists, `attempt` is the commit id in its headers. False when this commit has an upload already.
    mutating func adopt(
        _ id: UploadID, key: ObjectKey, metadata: ObjectMetadata, attempt: String, partSize: Int64, layoutSize: Int64,
        parts: [SentParts.Part], listed: [Int]
    ) -> Bool {
        guard !isAbandoned, upload == nil, creating == nil else { return false }
        layoutPlan = (partSize, layoutSize)
        layout = PartLayout(partSize: partSize, size: layoutSize, capabilities: capabilities)
        var upload = Upload(
            epoch: newTicket(), key: key, metadata: metadata, attempt: attempt, layout: layout, id: id)
        upload.doubtedGeneration = attempts[attempt]?.generation
        upload.begun = BegunParts(listed.filter { (1...max(1, capabilities.mostParts)).contains($0) })
        for part in parts where layout.range(of: part.uploaded.number - 1).lowerBound == part.range.lowerBound {
            upload.sent.insert(part)
        }
        self.upload = upload
        return true
    }

    /// Aborts such an upload instead.
    mutating func giveUp(_ id: UploadID, of key: ObjectKey) {
        retired[newTicket()] = (key, id)
        abortRetired()
    }

    // MARK: Attempts

    mutating func newAttemptID() -> String { "\(identity)-\(newTicket())" }

    /// The answer to an attempt is lost.
    mutating func doubts(_ attempt: Attempt) {
        attempts.doubt(attempt.key)
        if upload?.attempt == attempt.id { upload?.doubtedGeneration = attempt.generation }
    }

    /// The answer came: the attempt has made the version. A completion consumes its upload.
    mutating func land(_ attempt: Attempt, _ version: ObjectVersion) {
        let isOfUpload = upload?.attempt == attempt.id
        if isOfUpload { forgetUpload() }
        attempts.land(attempt, version, ofUpload: isOfUpload)
    }

    /// A HEAD was answered. Returns whether an attempt of this file made the object that is there.
    mutating func looked(_ info: ObjectInfo?, at key: ObjectKey) -> Bool {
        guard let attempt = attempts.recognise(info, at: key), let info else { return false }
        land(attempt, info.version)
        attempts.landedWith(info.metadata)
        return true
    }

    private mutating func forgetUpload() {
        upload?.id = nil
        retire()
    }

    private mutating func newTicket() -> Ticket {
        lastTicket += 1
        return lastTicket
    }
}
