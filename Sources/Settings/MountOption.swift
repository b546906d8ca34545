import Basics
import ObjectStorage

/// One option of a mount: its name, the form of its value, its default, and the setting that it changes.
package struct MountOption: Sendable {
    /// As in `-o name=value`; `--name value` and `PAILFS_NAME` follow from it.
    package let name: String
    /// The value's name in help and manual; nil for a flag.
    package let placeholder: String?
    /// As a user would write it; nil when there is none.
    package let defaultValue: String?
    /// The behaviour without the option, in words, where no value of it describes that.
    let otherwise: String?
    /// Sentences for help and manual.
    package let help: String
    /// The least value and the greatest, as `1 to 256`; nil where there are none.
    let limits: String?
    /// Whether it is listed: options that mount(8) passes are accepted and not shown.
    package let isListed: Bool
    /// Whether it can change while the bucket is mounted.
    package private(set) var isLive = false
    /// The kinds of store that support it, where it would have a false effect at others; nil for all.
    private(set) var schemes: [BucketURL.Scheme]?
    /// Whether a file's setting for every mount is ignored where the store does not support it, instead of refused.
    private(set) var isLeftOutElsewhere = false
    /// The option without which this one does nothing.
    package private(set) var base: String?
    /// Whether each value is added to those before.
    let isRepeatable: Bool
    /// The flag that this one reverses.
    let opposite: String?
    private let assign: @Sendable (String, String, inout MountSettings) throws(SettingsError) -> Void

    typealias Field<Value> = any WritableKeyPath<MountSettings, Value> & Sendable

    init(
        _ name: String, _ placeholder: String?, default value: String?, otherwise: String? = nil, help: String,
        limits: String? = nil, isListed: Bool = true, isRepeatable: Bool = false, opposite: String? = nil,
        assign: @escaping @Sendable (String, String, inout MountSettings) throws(SettingsError) -> Void
    ) {
        (self.name, self.placeholder, self.defaultValue, self.help) = (name, placeholder, value, help)
        (self.otherwise, self.limits) = (otherwise, limits)
        (self.isListed, self.isRepeatable, self.opposite, self.assign) = (isListed, isRepeatable, opposite, assign)
    }

    /// A copy of the option that can also change while the bucket is mounted.
    var live: MountOption {
        var option = self
        option.isLive = true
        return option
    }

    /// A copy of the option for these kinds of store; others refuse it, as they would ignore it without notice.
    func only(for schemes: BucketURL.Scheme...) -> MountOption {
        var option = self
        option.schemes = schemes
        return option
    }

    /// A copy of the option that a file may set for every mount, whatever its store.
    var leftOutElsewhere: MountOption {
        var option = self
        option.isLeftOutElsewhere = true
        return option
    }

    /// A copy of the option that is refused without `base`, and that short lists leave out.
    func with(_ base: String) -> MountOption {
        var option = self
        option.base = base
        return option
    }

    /// Sets the option to `text`; for a flag, nil or a yes or no.
    func set(_ text: String?, in settings: inout MountSettings) throws(SettingsError) {
        if let placeholder {
            guard let text, !text.isEmpty else { throw .missingValue(name: name, placeholder: placeholder) }
            try assign(name, text, &settings)
        } else {
            try assign(name, text ?? "yes", &settings)
        }
    }

    // MARK: kinds of value

    static func flag(
        _ name: String, _ field: Field<Bool>, _ help: String, opposite: String? = nil
    ) -> MountOption {
        MountOption(name, nil, default: nil, help: help, isListed: opposite == nil, opposite: opposite) {
            (name, text, settings) throws(SettingsError) in
            settings[keyPath: field] = try yesOrNo(name, text) == (opposite == nil)
        }
    }

    static func text(
        _ name: String, _ placeholder: String, _ field: Field<String?>, default value: String? = nil, _ help: String
    ) -> MountOption {
        MountOption(name, placeholder, default: value, help: help) { (name, text, settings) throws(SettingsError) in
            guard !text.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7f }) else {
                throw .badValue(name: name, value: text, expected: "it without control characters")
            }
            settings[keyPath: field] = text
        }
    }

    /// A path, absolute or relative to the working directory; it becomes absolute.
    static func path(_ name: String, _ placeholder: String, _ field: Field<String?>, _ help: String) -> MountOption {
        MountOption(name, placeholder, default: nil, help: help) { (name, text, settings) throws(SettingsError) in
            settings[keyPath: field] = text
        }
    }

    static func url(_ name: String, _ field: Field<String?>, schemes: [String], _ help: String) -> MountOption {
        MountOption(name, "url", default: nil, help: help) { (name, text, settings) throws(SettingsError) in
            let isURL = schemes.contains { scheme in
                let rest = text.dropFirst(scheme.count + 3)
                return text.lowercased().hasPrefix(scheme + "://") && rest.first.map { $0 != "/" } == true
                    && !rest.contains { $0 == "@" || $0 == "?" || $0 == "#" || $0.isWhitespace }
            }
            guard isURL else {
                // s3fs(1) takes a region as endpoint.
                let isRegion =
                    name == "endpoint" && text.contains("-")
                    && text.allSatisfy { $0.isLetter || $0.isNumber || $0 == "-" }
                throw .badValue(
                    name: name, value: hidingPassword(text),
                    expected: (isRegion ? "region=\(text), or as endpoint " : "")
                        + schemes.map { "\($0)://host:port" }.joined(separator: " or "))
            }
            settings[keyPath: field] = text
        }
    }

    /// The address of a service for programs of this machine alone.
    static func place(_ name: String, _ field: Field<MetricsPlace?>, _ help: String) -> MountOption {
        MountOption(name, "place", default: nil, help: help) { (name, text, settings) throws(SettingsError) in
            guard let place = MetricsPlace(text) else {
                throw .badValue(
                    name: name, value: text,
                    expected: "a path with a slash, a local port such as 127.0.0.1:9464, or all:9464 for other machines"
                )
            }
            settings[keyPath: field] = place
        }
    }

    /// A moment, in UTC or with an offset, or in seconds since 1970.
    static func moment(_ name: String, _ field: Field<Timestamp?>, _ help: String) -> MountOption {
        MountOption(name, "time", default: nil, help: help) { (name, text, settings) throws(SettingsError) in
            guard let time = Int64(text).map({ Timestamp(seconds: $0) }) ?? Timestamp(iso8601: text) else {
                throw .badValue(
                    name: name, value: text, expected: "a time such as 2026-11-30T12:00:00Z, or seconds since 1970")
            }
            settings[keyPath: field] = time
        }
    }

    static func keeper(_ name: String, _ field: Field<KeeperPlace?>, _ help: String) -> MountOption {
        MountOption(name, "keeper", default: nil, help: help) { (name, text, settings) throws(SettingsError) in
            guard let place = KeeperPlace(text) else {
                throw .badValue(name: name, value: text, expected: "systemd, or the path of a socket, with a slash")
            }
            settings[keyPath: field] = place
        }
    }

    static func size(
        _ name: String, _ field: Field<Int64>, in range: ClosedRange<Int64>, default value: String, _ help: String
    ) -> MountOption {
        MountOption(name, "size", default: value, help: help, limits: bounds(range)) {
            (name, text, settings) throws(SettingsError) in
            settings[keyPath: field] = try bytes(name, text, range)
        }
    }

    static func size(
        _ name: String, _ field: Field<Int64?>, in range: ClosedRange<Int64>, otherwise: String, _ help: String
    ) -> MountOption {
        MountOption(name, "size", default: nil, otherwise: otherwise, help: help, limits: bounds(range)) {
            (name, text, settings) throws(SettingsError) in
            settings[keyPath: field] = try bytes(name, text, range)
        }
    }

    static func duration(
        _ name: String, _ field: Field<Duration>, in range: ClosedRange<Duration>, default value: String,
        _ help: String
    ) -> MountOption {
        MountOption(name, "time", default: value, help: help, limits: bounds(range)) {
            (name, text, settings) throws(SettingsError) in
            settings[keyPath: field] = try time(name, text, range)
        }
    }

    static func duration(
        _ name: String, _ field: Field<Duration?>, in range: ClosedRange<Duration>, otherwise: String, _ help: String
    ) -> MountOption {
        MountOption(name, "time", default: nil, otherwise: otherwise, help: help, limits: bounds(range)) {
            (name, text, settings) throws(SettingsError) in
            settings[keyPath: field] = try time(name, text, range)
        }
    }

    static func mode(_ name: String, _ field: Field<UInt16>, default value: String, _ help: String) -> MountOption {
        MountOption(name, "mode", default: value, help: help) { (name, text, settings) throws(SettingsError) in
            settings[keyPath: field] = try permissions(name, text)
        }
    }

    static func mode(_ name: String, _ field: Field<UInt16?>, _ help: String) -> MountOption {
        MountOption(name, "mode", default: nil, help: help) { (name, text, settings) throws(SettingsError) in
            settings[keyPath: field] = try permissions(name, text)
        }
    }

    static func number(
        _ name: String, _ field: Field<Int>, in range: ClosedRange<Int>, default value: String, _ help: String
    ) -> MountOption {
        MountOption(name, "number", default: value, help: help, limits: bounds(range)) {
            (name, text, settings) throws(SettingsError) in
            settings[keyPath: field] = try number(name, text, range)
        }
    }

    static func number(
        _ name: String, _ field: Field<Int?>, in range: ClosedRange<Int>, _ help: String
    ) -> MountOption {
        MountOption(name, "number", default: nil, help: help, limits: bounds(range)) {
            (name, text, settings) throws(SettingsError) in
            settings[keyPath: field] = try number(name, text, range)
        }
    }

    /// A text without spaces that may be given several times.
    static func texts(_ name: String, _ placeholder: String, _ field: Field<[String]>, _ help: String) -> MountOption {
        MountOption(name, placeholder, default: nil, help: help, isRepeatable: true) {
            (name, text, settings) throws(SettingsError) in
            guard text.unicodeScalars.allSatisfy({ $0.value > 0x20 && $0.value < 0x7f }) else {
                throw .badValue(name: name, value: text, expected: "a \(placeholder) without spaces")
            }
            settings[keyPath: field].append(text)
        }
    }

    /// A pattern for names, which may be given several times; the order among all such options counts.
    static func pattern(_ name: String, isIncluded: Bool, _ help: String) -> MountOption {
        MountOption(name, "pattern", default: nil, help: help, isRepeatable: true) {
            (name, text, settings) throws(SettingsError) in
            guard let rule = KeyFilter.Rule(text, isIncluded: isIncluded) else {
                throw .badValue(name: name, value: text, expected: "a pattern such as *.tmp, build/ or /logs/[0-9]*")
            }
            settings.filters.append(rule)
        }
    }

    /// A rate, or several with the times of day from which they apply.
    static func rate(_ name: String, _ field: Field<RateSchedule>, _ kind: RateText, _ help: String) -> MountOption {
        MountOption(name, "rate", default: nil, otherwise: "no limit", help: help, limits: kind.limits) {
            (name, text, settings) throws(SettingsError) in
            guard let schedule = kind.parse(text) else {
                throw .badValue(name: name, value: text, expected: kind.expected)
            }
            settings[keyPath: field] = schedule
        }
    }

    static func identity(_ name: String, _ field: Field<UInt32?>, _ help: String) -> MountOption {
        MountOption(name, "number", default: nil, help: help) { (name, text, settings) throws(SettingsError) in
            // The highest value means "no change" to chown(2), so no user has it.
            guard let number = UInt32(text), number < .max else {
                throw .badValue(name: name, value: text, expected: "a number from 0 to \(UInt32.max - 1)")
            }
            settings[keyPath: field] = number
        }
    }

    static func choice<Value: RawRepresentable<String> & CaseIterable & Sendable>(
        _ name: String, _ field: Field<Value>, default value: Value, _ help: String
    ) -> MountOption {
        let values = Value.allCases.map(\.rawValue)
        return MountOption(
            name, values.joined(separator: "|"), default: value.rawValue, help: help
        ) { (name, text, settings) throws(SettingsError) in
            guard let value = Value(rawValue: text) else {
                throw .badValue(name: name, value: text, expected: values.joined(separator: " or "))
            }
            settings[keyPath: field] = value
        }
    }

    /// A flag that mount(8) and fstab(5) pass and the kernel enforces.
    static func kernelFlag(_ name: String) -> MountOption {
        MountOption(name, nil, default: nil, help: "", isListed: false) { name, _, settings in
            if !settings.kernelFlags.contains(name) { settings.kernelFlags.append(name) }
        }
    }

    /// A flag that libfuse enforces: it lets the kernel admit every user, and refuses all but two.
    static func rootOnly(_ name: String, _ help: String) -> MountOption {
        MountOption(name, nil, default: nil, help: help) { (name, text, settings) throws(SettingsError) in
            settings.kernelFlags.removeAll { $0 == name }
            guard try yesOrNo(name, text) else { return }
            settings.kernelFlags.append(name)
        }
    }

    /// An option of another program, of which these values describe what pailfs does in any case.
    static func accepting(_ name: String, _ values: Set<String>, otherwise remedy: String) -> MountOption {
        MountOption(name, "value", default: nil, help: "", isListed: false) {
            (name, text, _) throws(SettingsError) in
            guard values.contains(text.lowercased()) else {
                throw .otherProgram(name: "\(name)=\(text)", remedy: remedy)
            }
        }
    }

    /// A flag of another program for what pailfs does in any case, which cannot be switched off.
    static func always(_ name: String) -> MountOption {
        MountOption(name, nil, default: nil, help: "", isListed: false) { (name, text, _) throws(SettingsError) in
            guard !["no", "false", "0", "off"].contains(text.lowercased()) else {
                throw .otherProgram(name: "\(name)=\(text)", remedy: "leave it out: pailfs does this in any case")
            }
        }
    }

    /// An option that mount(8) and fstab(5) pass and that has no effect here.
    static func ignored(_ name: String) -> MountOption {
        MountOption(name, nil, default: nil, help: "", isListed: false) { _, _, _ in }
    }

    // MARK: values

    private static func yesOrNo(_ name: String, _ text: String) throws(SettingsError) -> Bool {
        switch text {
        case "yes", "true", "1", "on": return true
        case "no", "false", "0", "off": return false
        default: throw .badValue(name: name, value: text, expected: "yes or no, or the name alone")
        }
    }

    private static func bytes(
        _ name: String, _ text: String, _ range: ClosedRange<Int64>
    ) throws(SettingsError) -> Int64 {
        guard let bytes = ByteSize.parse(text), range.contains(bytes) else {
            throw .badValue(name: name, value: text, expected: "a size such as 512MiB or 2G, from \(bounds(range))")
        }
        return bytes
    }

    private static func number(
        _ name: String, _ text: String, _ range: ClosedRange<Int>
    ) throws(SettingsError) -> Int {
        guard let number = Int(text), range.contains(number) else {
            throw .badValue(name: name, value: text, expected: "a number from \(bounds(range))")
        }
        return number
    }

    private static func time(
        _ name: String, _ text: String, _ range: ClosedRange<Duration>
    ) throws(SettingsError) -> Duration {
        guard let duration = DurationText.parse(text), range.contains(duration) else {
            throw .badValue(name: name, value: text, expected: "a time such as 90, 30s or 5m, from \(bounds(range))")
        }
        return duration
    }

    private static func bounds(_ range: ClosedRange<Int64>) -> String {
        "\(ByteSize.format(range.lowerBound)) to \(ByteSize.format(range.upperBound))"
    }

    private static func bounds(_ range: ClosedRange<Int>) -> String { "\(range.lowerBound) to \(range.upperBound)" }

    private static func bounds(_ range: ClosedRange<Duration>) -> String {
        "\(DurationText.format(range.lowerBound)) to \(DurationText.format(range.upperBound))"
    }

    private static func permissions(_ name: String, _ text: String) throws(SettingsError) -> UInt16 {
        guard let mode = UInt16(text, radix: 8), mode <= 0o777, text.first != "+" else {
            throw .badValue(name: name, value: text, expected: "permission bits in octal, such as 640")
        }
        return mode
    }

    /// Removes the password of a URL, which must not reach a terminal or a log.
    private static func hidingPassword(_ text: String) -> String {
        guard let at = text.lastIndex(of: "@") else { return text }
        return "…" + text[at...]
    }
}
